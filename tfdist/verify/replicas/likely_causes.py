"""Likely causes of a difference, from where the runs part and what the model is made of."""

from __future__ import annotations

import math
from typing import Literal

from tfdist.launch.worker_options import Compression
from tfdist.verify.replicas import cause_texts
from tfdist.verify.replicas.cause_texts import Cause
from tfdist.verify.replicas.recorded_facts import ModelFacts
from tfdist.verify.replicas.recording_comparison import ComparedMoment, Comparison

Versus = Literal["again", "replicas", "xla", "precision", "communication"]
"""The way the other run differs: not at all, in its replicas, in XLA on or off, in precision, in its collectives."""

_NEAR = 0.2
"""The distance that a ratio may have from R or 1/R: uneven batches move it."""

_ROUNDED, _GROWN = 1e-4, 1e-2
"""A first difference below these may come from rounding: in the first step, and in one after it."""


def likely_causes(
    comparison: Comparison, facts: ModelFacts, versus: Versus, replicas: int, compression: Compression = "none"
) -> list[Cause]:
    """The most likely causes of a difference, the likeliest first; empty when there is none.

    Args:
        comparison: The comparison of both runs.
        facts: Facts of their models.
        versus: How the other run differs.
        replicas: Replicas of the other run.
        compression: The type in which its workers send gradients; "none" for their own.
    """
    row, first = comparison.first_row, comparison.first()
    if row is None or first is None:
        return []
    if first.kind == "weights" and row is comparison.rows[0]:
        return [cause_texts.INITIALISATION[versus == "again"]]
    if first.kind == "data":
        return [cause_texts.DATA[versus == "again"]]
    if first.kind == "copies":
        names = [difference.name for difference in row.parted("copies")]
        is_statistics = facts.unsynchronized and set(names) <= set(facts.non_trainable)
        return [cause_texts.statistics(facts) if is_statistics else cause_texts.COPIES]
    if first.kind == "steps":
        return [cause_texts.STEPS[versus == "again"]]
    if "float16" in facts.compute_dtypes and _overflowed_once(comparison):
        return [cause_texts.OVERFLOW]
    if versus == "again":
        return [cause_texts.IRREPRODUCIBLE]
    if versus in cause_texts.OTHERS:
        return [cause_texts.OTHERS[versus]]
    return _of_replicas(comparison, row, facts, replicas, compression)


def _of_replicas(
    comparison: Comparison, row: ComparedMoment, facts: ModelFacts, replicas: int, compression: Compression
) -> list[Cause]:
    if all(difference.kind == "metrics" for each in comparison.rows for difference in each.parted()):
        return [cause_texts.metric([difference.name for difference in row.parted("metrics")])]
    if facts.unsynchronized and comparison.first("loss", "gradient norm", "weights"):
        return [cause_texts.statistics(facts)]
    factor = _factor(row, replicas)
    if facts.overrides:
        return [cause_texts.own_step(facts, factor, replicas)]
    paths = [difference.name for difference in row.parted("weights")]
    if not row.parted("loss", "gradient norm") and paths and set(paths) <= set(facts.non_trainable):
        return [cause_texts.state(paths)]
    if factor:
        return [cause_texts.summed(factor, replicas)]
    is_first = row is _first_trained(comparison)
    if compression != "none" and not (is_first and row.parted("loss")):
        return [cause_texts.compressed(compression)]
    if facts.half:
        return [cause_texts.HALF]
    largest = max(difference.relative for difference in row.parted())
    if is_first and largest >= _ROUNDED:
        return [cause_texts.WHOLE_BATCH if row.parted("loss") else cause_texts.UNKNOWN]
    return [cause_texts.ROUNDING] if largest < _GROWN else [cause_texts.UNKNOWN]


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
