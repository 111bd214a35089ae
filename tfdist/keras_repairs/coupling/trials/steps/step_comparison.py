"""Compares what a step does on one replica with what it does on two: gradients, metrics, logs and variables."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tfdist.keras_repairs.base.step_records import KnownUpdate, Mode
from tfdist.keras_repairs.coupling.trials.replica_trial import OneAndTwo
from tfdist.keras_repairs.coupling.trials.split_comparison import Split, is_same
from tfdist.keras_repairs.coupling.trials.steps.assigned_variables import Assigned, of_assigned
from tfdist.keras_repairs.coupling.trials.steps.gradient_slices import (
    added,
    are_same,
    as_float64,
    largest_of,
    slices_of,
)
from tfdist.keras_repairs.coupling.trials.steps.step_verdict import Cause, StepVerdict
from tfdist.keras_repairs.coupling.trials.trial_notes import Reading, Update, Write, unshared_write

_AS_IT_IS = Mode()

@dataclass(frozen=True)
class StepResults:
    """The results of a step: what it has done, in its order.

    Attributes:
        updates: What optimizers get.
        readings: What means and sums of metrics get.
        logs: Scalars that are computed by hand, by name.
        assigned: What it left in variables, by the variable's id.
        gathered: What the replica has gathered; see `ReplicaStep`.
        writes: What it was to write.
    """

    updates: list[Update]
    readings: list[Reading]
    logs: Mapping[str, NDArray]
    assigned: Mapping[int, Assigned] = field(default_factory=dict)
    gathered: Sequence[tuple[bool, ...]] = ()
    writes: Sequence[Write] = ()


def compared(
    results: OneAndTwo[StepResults], tolerance: float, *, split: Split, mode: Mode = _AS_IT_IS
) -> StepVerdict | None:
    """Returns what a step shows of itself; None where it shows nothing.

    Args:
        results: Of one replica and of two.
        tolerance: Relative to the largest number.
        split: Which rows the two had.
        mode: How the two shared it out.
    """
    whole, parts = results.whole, results.parts
    for name, count in (("updates", "optimizers"), ("readings", "metrics")):
        if any(len(getattr(part, name)) != len(getattr(whole, name)) for part in parts):
            return StepVerdict(Cause.COUPLED, f"how often it updates {count}")
    shows = not whole.updates
    for update, *of_parts in zip(whole.updates, *(part.updates for part in parts), strict=True):
        cause = _of_gradients(update, of_parts, tolerance, split, are_sums=mode.sums_at_tape)
        shows |= cause is not None
        if cause not in (None, Cause.SUM if mode.sums and not mode.sums_at_tape else Cause.EXACT):
            return StepVerdict(cause, f"what the optimizer {update.optimizer!r} gets as gradients", True)
    for reading, *of_parts in zip(whole.readings, *(part.readings for part in parts), strict=True):
        cause = _of_reading(reading, of_parts, tolerance, split)
        if cause is not Cause.EXACT:
            return StepVerdict(cause, f"what the metric {reading.metric!r} is updated with")
    for name in parts[0].logs.keys() & whole.logs.keys():
        cause = _of_mean(whole.logs[name], [part.logs[name] for part in parts], tolerance, split)
        if cause is not Cause.EXACT:
            return StepVerdict(cause, f"the log {name!r}")
    found = of_assigned(whole.assigned, [part.assigned for part in parts], tolerance)
    if found is not None:
        return found
    written = unshared_write(whole.writes, [part.writes for part in parts], tolerance, split)
    if written is not None:
        return StepVerdict(Cause.WRITTEN, f"what it writes by {written}")
    return StepVerdict() if shows else None


def known_updates(results: OneAndTwo[StepResults]) -> dict[int, list[KnownUpdate]]:
    """Returns what is found of the updates of means and sums, by the metric's id, in their order."""
    found: dict[int, list[KnownUpdate]] = {}
    for whole, *parts in zip(results.whole.readings, *(part.readings for part in results.parts), strict=True):
        if any(part.is_of_all for part in parts):
            continue
        is_of_batch = all(np.shape(part.values)[:1] == np.shape(whole.values)[:1] for part in parts)
        known = KnownUpdate(is_of_batch and np.ndim(whole.values) > 0, _have_same_weight(whole, parts))
        found.setdefault(whole.key, []).append(known)
    return found


def _have_same_weight(whole: Reading, parts: Sequence[Reading]) -> bool:
    """Returns whether the weight of an update is the same for all samples as for a part of them."""
    if whole.weight is None or any(part.weight is None for part in parts):
        return all(part.weight is whole.weight for part in parts)
    return all(np.array_equal(np.asarray(part.weight), np.asarray(whole.weight)) for part in parts)


def _of_gradients(
    whole: Update, parts: Sequence[Update], tolerance: float, split: Split, *, are_sums: bool
) -> Cause | None:
    """Returns what the gradients of a step are; None where they are zero or no numbers.

    Where they are sums over the replicas already, each replica has those of the whole batch.
    """
    gradients = slices_of(whole)
    largest = largest_of(gradients)
    if not largest or not math.isfinite(largest):
        return None
    of_parts = [slices_of(part) for part in parts]
    if are_sums:
        is_same_sum = all(are_same(gradients, part, tolerance * largest) for part in of_parts)
        return Cause.EXACT if is_same_sum else Cause.COUPLED
    for cause, weights in ((Cause.EXACT, split.shares), (Cause.SUM, (1.0, 1.0))):
        together = [added(pieces, weights) for pieces in zip(*of_parts, strict=True)]
        if are_same(gradients, together, tolerance * largest):
            return cause
    return Cause.COUPLED


def _of_reading(whole: Reading, parts: Sequence[Reading], tolerance: float, split: Split) -> Cause:
    """Returns what a mean or a sum is updated with: a scalar is to be a mean, and anything else to count as on one
    replica."""
    if any(part.is_of_all for part in parts):
        values = as_float64(whole.values)
        same = all(is_same(values, as_float64(part.values), tolerance) for part in parts)
        return Cause.EXACT if same else Cause.COUPLED
    if not np.ndim(whole.values) and _have_same_weight(whole, parts):
        return _of_mean(as_float64(whole.values), [as_float64(part.values) for part in parts], tolerance, split)
    totals = [_total(*part.counted) for part in parts]
    if np.ndim(whole.values) and all(np.shape(part.values) == np.shape(whole.values) for part in parts):
        # One value a class, say, and not one a sample, which a few samples may be as many as.
        totals = [share * _total(part.values, part.weight) for share, part in zip(split.shares, parts, strict=True)]
    together = np.sum(totals, axis=0)
    same = all(is_same(one, other, tolerance) for one, other in zip(_total(*whole.counted), together, strict=True))
    return Cause.EXACT if same else Cause.COUPLED


def _total(values: Any, weight: Any) -> NDArray:
    """Returns what a mean adds to its total and to its count, of all samples together."""
    values = as_float64(values)
    weight = np.ones(()) if weight is None else as_float64(weight)
    weight = weight.reshape(weight.shape + (1,) * (values.ndim - weight.ndim))
    return np.array([(values * weight).sum(), (np.ones_like(values) * weight).sum()])


def _of_mean(whole: NDArray, parts: Sequence[NDArray], tolerance: float, split: Split) -> Cause:
    if not np.isfinite(whole):
        return Cause.EXACT
    largest = max(float(np.abs(value)) for value in (whole, *parts))
    for cause, weights in ((Cause.EXACT, split.shares), (Cause.SUM, (1.0, 1.0))):
        together = sum(weight * value for weight, value in zip(weights, parts, strict=True))
        if abs(float(whole - together)) <= tolerance * largest:
            return cause
    return Cause.COUPLED
