"""Why two runs parted, most likely: decided from where they parted and from what is known of the model."""

from __future__ import annotations

import math
from typing import Literal

from tfdist.verify import causes
from tfdist.verify.causes import Cause
from tfdist.verify.model_facts import ModelFacts
from tfdist.verify.recording_comparison import ComparedMoment, Comparison

Versus = Literal["again", "replicas", "xla", "precision", "communication"]
"""What the other run has otherwise: nothing, more replicas, XLA on or off, another precision, other collectives."""

_NEAR = 0.2
"""How far from R or 1/R a ratio may be: uneven batches move it."""

_ROUNDED, _GROWN = 1e-4, 1e-2
"""A first difference below these may come from rounding: in the first step, and in one after it."""


def likely_causes(comparison: Comparison, facts: ModelFacts, versus: Versus, replicas: int) -> list[Cause]:
    """Names what most likely made two runs part, the likeliest first; nothing when they did not.

    Args:
        comparison: Of both runs.
        facts: Of their models.
        versus: What the other run has otherwise.
        replicas: Of the other run.
    """
    row, first = comparison.first_row, comparison.first()
    if row is None or first is None:
        return []
    if first.kind == "weights" and row is comparison.rows[0]:
        return [causes.INITIALISATION[versus == "again"]]
    if first.kind == "data":
        return [causes.DATA[versus == "again"]]
    if first.kind == "copies":
        names = [difference.name for difference in row.parted("copies")]
        is_statistics = facts.unsynchronized and set(names) <= set(facts.non_trainable)
        return [causes.statistics(facts) if is_statistics else causes.COPIES]
    if first.kind == "steps":
        return [causes.STEPS[versus == "again"]]
    if "float16" in facts.compute_dtypes and _overflowed_once(comparison):
        return [causes.OVERFLOW]
    if versus == "again":
        return [causes.IRREPRODUCIBLE]
    if versus in causes.OTHERS:
        return [causes.OTHERS[versus]]
    return _of_replicas(comparison, row, facts, replicas)


def _of_replicas(comparison: Comparison, row: ComparedMoment, facts: ModelFacts, replicas: int) -> list[Cause]:
    if all(difference.kind == "metrics" for each in comparison.rows for difference in each.parted()):
        return [causes.metric([difference.name for difference in row.parted("metrics")])]
    found = []
    if comparison.first("loss", "gradient norm"):
        found += [causes.random_layers(facts)] if facts.random_layers else []
        found += [causes.statistics(facts)] if facts.unsynchronized else []
    elif facts.unsynchronized and comparison.first("weights"):
        found += [causes.statistics(facts)]
    if found:
        return found
    factor = _factor(row, replicas)
    if facts.overrides:
        return [causes.own_step(facts, factor, replicas)]
    paths = [difference.name for difference in row.parted("weights")]
    if not row.parted("loss", "gradient norm") and paths and set(paths) <= set(facts.non_trainable):
        return [causes.state(paths)]
    if factor:
        return [causes.summed(factor, replicas)]
    if facts.half:
        return [causes.HALF]
    largest = max(difference.relative for difference in row.parted())
    if row is _first_trained(comparison) and largest >= _ROUNDED:
        return [causes.WHOLE_BATCH if row.parted("loss") else causes.UNKNOWN]
    return [causes.ROUNDING] if largest < _GROWN else [causes.UNKNOWN]


def _first_trained(comparison: Comparison) -> ComparedMoment | None:
    return next((row for row in comparison.rows if row.of("loss", "gradient norm")), None)


def _overflowed_once(comparison: Comparison) -> bool:
    parted = comparison.first("gradient norm")
    if parted is None or parted.reference is None or parted.other is None:
        return False
    return math.isfinite(parted.reference) != math.isfinite(parted.other)


def _factor(row: ComparedMoment, replicas: int) -> float | None:
    """R or 1/R where a row's gradient norm, or else its loss, is that much of the reference's."""
    for difference in row.parted("gradient norm") or row.parted("loss"):
        if difference.reference and difference.other and math.isfinite(difference.relative):
            ratio = difference.other / difference.reference
            for factor in (replicas, 1 / replicas):
                if abs(ratio / factor - 1) < _NEAR:
                    return factor
    return None
