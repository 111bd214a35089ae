"""Compares what a step does on one replica with what it does on two: gradients, metrics, logs and variables."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import keras
import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from tfdist.keras_repairs.base.step_records import KnownUpdate, Mode
from tfdist.keras_repairs.coupling.trials.replica_trial import OneAndTwo
from tfdist.keras_repairs.coupling.trials.split_comparison import EQUAL, Split, is_same
from tfdist.keras_repairs.coupling.trials.steps.assigned_variables import Assigned, of_assigned
from tfdist.keras_repairs.coupling.trials.steps.step_verdict import Cause, StepVerdict
from tfdist.keras_repairs.coupling.trials.trial_notes import Reading, Update, Write, unshared_write

_AS_IT_IS = Mode()

_Slices: TypeAlias = tuple[NDArray | None, NDArray]
"""Rows and their values; rows are None of a dense tensor."""


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
    gradients = _slices_of(whole)
    size = _size(gradients)
    if not size or not math.isfinite(size):
        return None
    of_parts = [_slices_of(part) for part in parts]
    if are_sums:
        return Cause.EXACT if all(_are_same(gradients, part, tolerance * size) for part in of_parts) else Cause.COUPLED
    for cause, weights in ((Cause.EXACT, split.shares), (Cause.SUM, (1.0, 1.0))):
        together = [_added(pieces, weights) for pieces in zip(*of_parts, strict=True)]
        if _are_same(gradients, together, tolerance * size):
            return cause
    return Cause.COUPLED


def are_sums(updates: OneAndTwo[list[Update]], tolerance: float, split: Split) -> bool:
    """Returns whether the gradients of two replicas, where there are any, add up to those of one device."""
    causes = [_of_gradients(*update, tolerance, split, are_sums=False) for update in _pairs(updates)]
    return bool(causes) and all(cause is Cause.SUM for cause in causes)


def optimizer_of_means(updates: OneAndTwo[list[Update]], tolerance: float, split: Split) -> str | None:
    """Returns which optimizer gets gradients of a mean over a replica's own samples, divided by the number of replicas
    or not; None where none does.

    Gradients that are the same of any samples show nothing.
    """
    for whole, parts in _pairs(updates):
        if _of_gradients(whole, [whole, parts[0]], tolerance, split, are_sums=False) is Cause.EXACT:
            continue
        found = {_of_gradients(whole, parts, tolerance, split, are_sums=False)}
        if split is not EQUAL:
            # Of parts with as many rows, half of the mean is what a sum has.
            divided = [replace(part, gradients=[_doubled(gradient) for gradient in part.gradients]) for part in parts]
            found.add(_of_gradients(whole, divided, tolerance, split, are_sums=False))
        if Cause.EXACT in found:
            return whole.optimizer
    return None


def optimizer_of_others(
    one: OneAndTwo[list[Update]], other: OneAndTwo[list[Update]], tolerance: float, split: Split
) -> str | None:
    """Returns which optimizer gets gradients that do not add up to those of one device; None where none is known to.

    What is the same for any samples, as the gradient of a penalty on weights, may be divided by the number of replicas,
    of which there are others in a trial. So may gradients that the replicas have reduced by hand: each has the same.

    Args:
        one: The updates of one replica and of two.
        other: Those with other samples.
        tolerance: Relative to the largest gradient.
        split: Which rows the two had.
    """
    for (whole, parts), (other_whole, other_parts) in zip(_pairs(one), _pairs(other), strict=False):
        causes = [
            _of_gradients(whole, parts, tolerance, split, are_sums=False),
            _of_gradients(other_whole, other_parts, tolerance, split, are_sums=False),
        ]
        if None in causes or Cause.COUPLED not in causes:
            continue
        allowed = tolerance * max(_size(_slices_of(update)) for update in (whole, other_whole))
        are_reduced = _are_same(_slices_of(parts[0]), _slices_of(parts[1]), allowed)
        if not are_reduced and not _are_same(_excess(whole, parts), _excess(other_whole, other_parts), allowed):
            return whole.optimizer
    return None


def _pairs(updates: OneAndTwo[list[Update]]) -> list[tuple[Update, list[Update]]]:
    """The updates of one replica, with those of two; none where they do not make as many, or of other shapes: a loop
    may be given what are no samples."""
    if any(len(part) != len(updates.whole) for part in updates.parts):
        return []
    pairs = [(whole, list(parts)) for whole, *parts in zip(updates.whole, *updates.parts, strict=True)]
    return [(whole, parts) for whole, parts in pairs if all(_shapes(part) == _shapes(whole) for part in parts)]


def _shapes(update: Update) -> list[Any]:
    return [gradient.shape if isinstance(gradient, tf.Tensor) else None for gradient in update.gradients]


def _doubled(gradient: Any) -> Any:
    return None if gradient is None else tf.math.scalar_mul(tf.constant(2, gradient.dtype), gradient)


def _excess(whole: Update, parts: Sequence[Update]) -> list[_Slices]:
    """By how much gradients of all parts, added up, are more than those of the whole batch."""
    gradients = zip(whole.gradients, *(part.gradients for part in parts), strict=True)
    return [_added([_rows_of(gradient) for gradient in of_all], (-1.0, 1.0, 1.0)) for of_all in gradients]


def _slices_of(update: Update) -> list[_Slices]:
    return [_rows_of(gradient) for gradient in update.gradients]


def _size(gradients: Sequence[_Slices]) -> float:
    """The largest number in gradients, which may be infinite or NaN; 0 where there is none."""
    return max((float(np.abs(values).max()) for _, values in gradients if values.size), default=0.0)


def _rows_of(gradient: Any) -> _Slices:
    """A gradient as slices, each row once; a dense one has no rows, and None no values either."""
    if gradient is None:
        return None, np.zeros(0)
    if isinstance(gradient, tf.IndexedSlices):
        return _joined(np.asarray(gradient.indices), _as_float64(gradient.values))
    return None, _as_float64(gradient)


def _joined(rows: NDArray, values: NDArray) -> _Slices:
    unique, places = np.unique(rows, return_inverse=True)
    sums = np.zeros((len(unique), *values.shape[1:]))
    np.add.at(sums, places, values)
    return unique, sums


def _added(gradients: Sequence[_Slices], weights: Sequence[float]) -> _Slices:
    present = [
        (rows, weight * values) for (rows, values), weight in zip(gradients, weights, strict=True) if values.size
    ]
    if not present:
        return None, np.zeros(0)
    if any(rows is None for rows, _ in present):
        return None, np.sum([values for _, values in present], axis=0)
    rows, values = zip(*present, strict=True)
    return _joined(np.concatenate(rows), np.concatenate(values))


def _are_same(one: Sequence[_Slices], other: Sequence[_Slices], tolerance: float) -> bool:
    return all(_is_same_gradient(*pair, tolerance) for pair in zip(one, other, strict=True))


def _is_same_gradient(one: _Slices, other: _Slices, tolerance: float) -> bool:
    _, difference = _added([one, other], (1.0, -1.0))
    return not difference.size or float(np.abs(difference).max()) <= tolerance


def _of_reading(whole: Reading, parts: Sequence[Reading], tolerance: float, split: Split) -> Cause:
    """Returns what a mean or a sum is updated with: a scalar is to be a mean, and anything else to count as on one
    replica."""
    if any(part.is_of_all for part in parts):
        values = _as_float64(whole.values)
        same = all(is_same(values, _as_float64(part.values), tolerance) for part in parts)
        return Cause.EXACT if same else Cause.COUPLED
    if not np.ndim(whole.values) and _have_same_weight(whole, parts):
        return _of_mean(_as_float64(whole.values), [_as_float64(part.values) for part in parts], tolerance, split)
    totals = [_total(*part.counted) for part in parts]
    if np.ndim(whole.values) and all(np.shape(part.values) == np.shape(whole.values) for part in parts):
        # One value a class, say, and not one a sample, which a few samples may be as many as.
        totals = [share * _total(part.values, part.weight) for share, part in zip(split.shares, parts, strict=True)]
    together = np.sum(totals, axis=0)
    same = all(is_same(one, other, tolerance) for one, other in zip(_total(*whole.counted), together, strict=True))
    return Cause.EXACT if same else Cause.COUPLED


def _total(values: Any, weight: Any) -> NDArray:
    """Returns what a mean adds to its total and to its count, of all samples together."""
    values = _as_float64(values)
    weight = np.ones(()) if weight is None else _as_float64(weight)
    weight = weight.reshape(weight.shape + (1,) * (values.ndim - weight.ndim))
    return np.array([(values * weight).sum(), (np.ones_like(values) * weight).sum()])


def _of_mean(whole: NDArray, parts: Sequence[NDArray], tolerance: float, split: Split) -> Cause:
    if not np.isfinite(whole):
        return Cause.EXACT
    size = max(float(np.abs(value)) for value in (whole, *parts))
    for cause, weights in ((Cause.EXACT, split.shares), (Cause.SUM, (1.0, 1.0))):
        together = sum(weight * value for weight, value in zip(weights, parts, strict=True))
        if abs(float(whole - together)) <= tolerance * size:
            return cause
    return Cause.COUPLED


def _as_float64(value: Any) -> NDArray:
    return np.asarray(tf.cast(keras.ops.convert_to_tensor(value), tf.float64))
