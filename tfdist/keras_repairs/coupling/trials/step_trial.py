"""Tries out the user's steps: are gradients, logs and metrics those of one replica, where two have a part each?"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import keras
import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from tfdist.keras_repairs.base.nested_gradients import is_of_unequal_shares
from tfdist.keras_repairs.base.replica_step import KnownUpdate, current_step
from tfdist.keras_repairs.coupling.trials.kept_state import KeptState
from tfdist.keras_repairs.coupling.trials.made_up_inputs import Inputs, Numbers, made_up
from tfdist.keras_repairs.coupling.trials.made_up_labels import IGNORED
from tfdist.keras_repairs.coupling.trials.part_comparison import FIRST, OF_NETWORKS, ROWS, is_same, tolerance_of
from tfdist.keras_repairs.coupling.trials.replica_trial import Assignments, Mode, OneAndTwo, on_one_and_two
from tfdist.keras_repairs.coupling.trials.step_capture import Reading, Update, capturing
from tfdist.keras_repairs.coupling.trials.trial_scope import in_trial

_Slices: TypeAlias = tuple[NDArray | None, NDArray]
"""Rows and their values; rows are None of a dense tensor."""

_SHARES = (FIRST / ROWS, 1 - FIRST / ROWS)

_LARGE_GRADIENTS = 1e4
"""Gradients so many times as large are beyond what any step clips them to."""


_LEFT_OUT = [int(label) for label in IGNORED if not math.isnan(label)]
"""Labels that steps may leave out; one need not take them."""


# With one loss a sample, TensorFlow takes the gradient of their sum.
_OTHER_MODES = (Mode(sums=True), Mode(stacks=True), Mode(sums=True, stacks=True))


class Cause(enum.Enum):
    """What a trial has found."""

    EXACT = "as on one replica"
    SUM = "a sum over the samples"
    COUPLED = "neither a mean nor a sum over the samples"
    ASSIGNED = "depends on the samples"
    UNBUILT = "found out too late"
    FAILED = "could not be tried out"


@dataclass(frozen=True)
class StepVerdict:
    """What a trial has shown of a step.

    Attributes:
        cause: What is found of it.
        what: What of it is so, as a noun, or why it could not be tried out.
        is_of_gradients: Whether that is the gradients.
        draws_several: Whether it drew several times the rows of the batch.
        mode: How replicas have to share it out.
        updates: What it has shown of the updates of means and sums of metrics, by the metric's id, in their order.
    """

    cause: Cause = Cause.EXACT
    what: str = ""
    is_of_gradients: bool = False
    draws_several: bool = False
    mode: Mode = Mode()
    updates: Mapping[int, Sequence[KnownUpdate]] = field(default_factory=dict)


@dataclass(frozen=True)
class _Draw:
    """What a step is tried out with.

    Attributes:
        inputs: Its data.
        gradient_scale: By how much the gradients that it computes are made larger.
        must_run: Whether it shows nothing good of a step if it fails on it, or gives no numbers.
    """

    inputs: Inputs
    gradient_scale: float = 1.0
    must_run: bool = True


@dataclass(frozen=True)
class _Results:
    """What a step has done, in its order.

    Attributes:
        updates: What optimizers get.
        readings: What means and sums of metrics get.
        logs: Scalars that are computed by hand, by name.
        state: What was assigned to variables, by path.
    """

    updates: list[Update]
    readings: list[Reading]
    logs: Mapping[str, NDArray]
    state: Mapping[str, NDArray]


def try_out(model: keras.Model, step: Callable[[Any], Any], data: Any) -> StepVerdict:
    """Runs a step on made-up rows as on one replica and as on two, and compares what it does.

    Nothing is applied or assigned.

    Args:
        model: Compiled and built.
        step: Its `train_step` or `test_step`.
        data: The data that it is called with, of which structure, shapes and dtypes count.
    """
    try:
        proper = made_up(data, Numbers.PROPER)
        draws = [_Draw(proper), _Draw(made_up(data, Numbers.LARGE), _LARGE_GRADIENTS)]
        ignoring = (proper.with_labels(label) for label in _LEFT_OUT)
        draws.extend(_Draw(inputs, must_run=False) for inputs in ignoring if inputs is not None)
    except ValueError as error:
        return _failed(error)

    def verdict() -> StepVerdict:
        found = _verdict(model, step, draws, Mode())
        for mode in _OTHER_MODES if found.cause in (Cause.SUM, Cause.COUPLED) else ():
            if (mode.sums and not found.is_of_gradients) or (mode.stacks and not found.draws_several):
                continue
            other = _verdict(model, step, draws, mode)
            if other.cause is Cause.EXACT:
                return replace(other, mode=mode)
        return found

    return in_trial(verdict)


def _failed(error: Exception) -> StepVerdict:
    text = str(error).strip().splitlines()
    return StepVerdict(Cause.FAILED, f"{type(error).__name__}: {text[0] if text else ''}")


def _verdict(model: keras.Model, step: Callable[[Any], Any], draws: Sequence[_Draw], mode: Mode) -> StepVerdict:
    failure, learned = _failed(ValueError("its gradients are zero, or no numbers")), None
    for draw in draws:
        try:
            results = _run(model, step, draw, mode)
            verdict = _compared(results, OF_NETWORKS * tolerance_of(model), sums=mode.sums)
        except Exception as error:  # Whatever the user's code raises on values that are not its own.
            if is_of_unequal_shares(error):
                # The parts are unequal. The step itself looks at the shares of every batch.
                return StepVerdict()
            failure = _failed(error) if draw.must_run else failure
            continue
        if verdict is not None and verdict.cause is not Cause.EXACT:
            return replace(verdict, draws_several=results.draws_several)
        if verdict is not None and draw.must_run:
            learned = replace(verdict, updates=_updates(results))
    return learned or failure


def _updates(results: OneAndTwo[_Results]) -> dict[int, list[KnownUpdate]]:
    """What is found of the updates of means and sums, by the metric's id, in their order."""
    found: dict[int, list[KnownUpdate]] = {}
    for whole, *parts in zip(results.whole.readings, *(part.readings for part in results.parts), strict=True):
        if any(part.is_of_all for part in parts):
            continue
        is_of_batch = all(np.shape(part.values)[:1] == np.shape(whole.values)[:1] for part in parts)
        known = KnownUpdate(is_of_batch and np.ndim(whole.values) > 0, _have_same_weight(whole, parts))
        found.setdefault(whole.key, []).append(known)
    return found


def _have_same_weight(whole: Reading, parts: Sequence[Reading]) -> bool:
    """Whether the weight of an update is the same for all samples as for a part of them."""
    if whole.weight is None or any(part.weight is None for part in parts):
        return all(part.weight is whole.weight for part in parts)
    return all(np.array_equal(np.asarray(part.weight), np.asarray(whole.weight)) for part in parts)


def _run(model: keras.Model, step: Callable[[Any], Any], draw: _Draw, mode: Mode) -> OneAndTwo[_Results]:
    metrics = [*model.metrics, *(metric for layer in model._flatten_layers() for metric in layer._metrics)]

    def results(part: slice, scope: Assignments) -> _Results:
        # As far as the step is concerned: it may compute with their results, which two replicas add up.
        for metric in metrics:
            metric.reset_state()
        with capturing(draw.gradient_scale) as capture:
            logs = step(draw.inputs.rows(part))
        assigned = scope.assigned_arrays(model.variables)
        return _Results(capture.updates, capture.readings, _scalars(logs), assigned)

    return on_one_and_two(results, KeptState(model), users=True, mode=mode)


def _scalars(logs: Any) -> dict[str, NDArray]:
    """The logs that are computed by hand, by name; on one replica all that may be such."""
    flat = (
        {str(path[-1]): value for path, value in keras.tree.flatten_with_path(logs)} if isinstance(logs, dict) else {}
    )
    scalars = {name: np.asarray(value) for name, value in flat.items() if keras.ops.is_tensor(value)}
    step = current_step()
    if step is not None:
        results = {id(result) for result, _ in step.results}
        scalars = {name: scalars[name] for name in scalars if id(flat[name]) not in results}
    return {name: value for name, value in scalars.items() if not value.ndim and value.dtype.kind == "f"}


def _compared(results: OneAndTwo[_Results], tolerance: float, *, sums: bool) -> StepVerdict | None:
    """What a draw shows; None where it shows nothing."""
    whole, parts = results.whole, results.parts
    for name, count in (("updates", "optimizers"), ("readings", "metrics")):
        if any(len(getattr(part, name)) != len(getattr(whole, name)) for part in parts):
            return StepVerdict(Cause.COUPLED, f"how often it updates {count}")
    shows = not whole.updates
    for update, *of_parts in zip(whole.updates, *(part.updates for part in parts), strict=True):
        cause = _of_gradients(update, of_parts, tolerance)
        shows |= cause is not None
        if cause not in (None, Cause.SUM if sums else Cause.EXACT):
            return StepVerdict(cause, f"what the optimizer {update.optimizer!r} gets as gradients", True)
    for reading, *of_parts in zip(whole.readings, *(part.readings for part in parts), strict=True):
        cause = _of_reading(reading, of_parts, tolerance)
        if cause is not Cause.EXACT:
            return StepVerdict(cause, f"what the metric {reading.metric!r} is updated with")
    for name in parts[0].logs.keys() & whole.logs.keys():
        cause = _of_mean(whole.logs[name], [part.logs[name] for part in parts], tolerance)
        if cause is not Cause.EXACT:
            return StepVerdict(cause, f"the log {name!r}")
    for path, value in whole.state.items():
        if any(path not in part.state or not is_same(value, part.state[path], tolerance) for part in parts):
            return StepVerdict(Cause.ASSIGNED, f"what it assigns to {path!r}")
    return StepVerdict() if shows else None


def _of_gradients(whole: Update, parts: Sequence[Update], tolerance: float) -> Cause | None:
    """What the gradients of a step are; None where they are zero or no numbers."""
    gradients = [_rows_of(gradient) for gradient in whole.gradients]
    numbers = [values for _, values in gradients if values.size]
    if not all(np.isfinite(values).all() for values in numbers):
        return None
    scale = max((float(np.abs(values).max()) for values in numbers), default=0.0)
    if not scale:
        return None
    of_parts = [[_rows_of(gradient) for gradient in part.gradients] for part in parts]
    for cause, weights in ((Cause.EXACT, _SHARES), (Cause.SUM, (1.0, 1.0))):
        together = [_added(pieces, weights) for pieces in zip(*of_parts, strict=True)]
        if all(
            _is_same_gradient(one, other, tolerance * scale) for one, other in zip(gradients, together, strict=True)
        ):
            return cause
    return Cause.COUPLED


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


def _is_same_gradient(one: _Slices, other: _Slices, tolerance: float) -> bool:
    _, difference = _added([one, other], (1.0, -1.0))
    return not difference.size or float(np.abs(difference).max()) <= tolerance


def _of_reading(whole: Reading, parts: Sequence[Reading], tolerance: float) -> Cause:
    """What a mean or a sum is updated with: a scalar is to be a mean, and anything else to count as on one replica."""
    if any(part.is_of_all for part in parts):
        values = _as_float64(whole.values)
        same = all(is_same(values, _as_float64(part.values), tolerance) for part in parts)
        return Cause.EXACT if same else Cause.COUPLED
    if not np.ndim(whole.values) and _have_same_weight(whole, parts):
        return _of_mean(_as_float64(whole.values), [_as_float64(part.values) for part in parts], tolerance)
    totals = [_total(*part.counted) for part in parts]
    if np.ndim(whole.values) and all(np.shape(part.values) == np.shape(whole.values) for part in parts):
        # One value a class, say, and not one a sample, which a few samples may be as many as.
        totals = [share * _total(part.values, part.weight) for share, part in zip(_SHARES, parts, strict=True)]
    together = np.sum(totals, axis=0)
    same = all(is_same(one, other, tolerance) for one, other in zip(_total(*whole.counted), together, strict=True))
    return Cause.EXACT if same else Cause.COUPLED


def _total(values: Any, weight: Any) -> NDArray:
    """What a mean adds to its total and to its count, of all samples together."""
    values = _as_float64(values)
    weight = np.ones(()) if weight is None else _as_float64(weight)
    weight = weight.reshape(weight.shape + (1,) * (values.ndim - weight.ndim))
    return np.array([(values * weight).sum(), (np.ones_like(values) * weight).sum()])


def _of_mean(whole: NDArray, parts: Sequence[NDArray], tolerance: float) -> Cause:
    if not np.isfinite(whole):
        return Cause.EXACT
    size = max(float(np.abs(value)) for value in (whole, *parts))
    for cause, weights in ((Cause.EXACT, _SHARES), (Cause.SUM, (1.0, 1.0))):
        together = sum(weight * value for weight, value in zip(weights, parts, strict=True))
        if abs(float(whole - together)) <= tolerance * size:
            return cause
    return Cause.COUPLED


def _as_float64(value: Any) -> NDArray:
    return np.asarray(tf.cast(keras.ops.convert_to_tensor(value), tf.float64))
