"""Tries out steps of the user's: are results those of one replica, where two have a part each?"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from tfdist.keras_repairs.base.loss_scope import Kind
from tfdist.keras_repairs.base.nested_gradients import is_of_unequal_shares
from tfdist.keras_repairs.base.replica_step import current_step
from tfdist.keras_repairs.base.step_records import Mode
from tfdist.keras_repairs.coupling.trials.kept_state import KeptState
from tfdist.keras_repairs.coupling.trials.made_up_inputs import IGNORED, Inputs, Numbers, made_up
from tfdist.keras_repairs.coupling.trials.replica_trial import Assignments, OneAndTwo, on_one_and_two
from tfdist.keras_repairs.coupling.trials.split_comparison import (
    EQUAL,
    OF_NETWORKS,
    UNEQUAL,
    Split,
    comparable,
    is_of_own_rows,
    kinds,
    tolerance_of,
)
from tfdist.keras_repairs.coupling.trials.steps.assigned_variables import Assigned, Before, of_assigned
from tfdist.keras_repairs.coupling.trials.steps.step_capture import capturing
from tfdist.keras_repairs.coupling.trials.steps.step_comparison import (
    StepResults,
    compared,
    known_updates,
)
from tfdist.keras_repairs.coupling.trials.steps.step_methods import (
    noting_methods,
    replaced_methods,
    ways_to_gather,
)
from tfdist.keras_repairs.coupling.trials.steps.step_verdict import Cause, StepVerdict, failed
from tfdist.keras_repairs.coupling.trials.trial_notes import Write, noting_writes, unshared_write
from tfdist.keras_repairs.coupling.trials.trial_scope import in_trial

Function = Callable[..., Any]


Step = Callable[[Any], Any]
Gather = Callable[[str, Function], Function]


@dataclass(frozen=True)
class _Results:
    outputs: list[Any]
    assigned: dict[int, Assigned]
    updates: int
    writes: list[Write]


def try_out_prediction(model: keras.Model, step: Step, data: Any) -> StepVerdict:
    """Runs a step on made-up rows as on one replica and as on two, and compares what it returns and assigns.

    Nothing is applied or assigned.

    Args:
        model: A built model.
        step: Its `predict_step`.
        data: The data that it is called with, of which structure, shapes and dtypes count.
    """
    try:
        draws = [made_up(data, numbers) for numbers in (Numbers.NORMAL, Numbers.PROPER)]
    except ValueError as error:
        return failed(error)
    return in_trial(lambda: _prediction_verdict(model, step, draws))


def _prediction_verdict(model: keras.Model, step: Step, draws: Sequence[Inputs]) -> StepVerdict:
    found, failure = None, StepVerdict()
    for inputs in draws:
        try:
            verdict = _compared(_run_predictions(model, step, inputs), OF_NETWORKS * tolerance_of(model))
        except Exception as error:  # Whatever the user's code raises on values that are not its own.
            failure = failed(error)
            continue
        if verdict.cause is not Cause.EXACT:
            return verdict
        found = verdict
    return found or failure


def _run_predictions(model: keras.Model, step: Step, inputs: Inputs) -> OneAndTwo[_Results]:
    kept = KeptState(model, step)
    before = Before(model, kept)

    def results(part: slice, scope: Assignments) -> _Results:
        with capturing(1.0) as capture, noting_writes() as writes:
            outputs = tf.nest.flatten(step(inputs.rows(part)))
        return _Results([comparable(leaf) for leaf in outputs], before.assigned(scope), len(capture.updates), writes)

    return on_one_and_two(results, kept, users=False)


def _compared(results: OneAndTwo[_Results], tolerance: float) -> StepVerdict:
    whole, parts = results.whole, results.parts
    if whole.updates:
        return StepVerdict(Cause.COUPLED, "what an optimizer gets as gradients")
    if any(len(part.outputs) != len(whole.outputs) for part in parts):
        return StepVerdict(Cause.COUPLED, "how many tensors it returns")
    found = of_assigned(whole.assigned, [part.assigned for part in parts], tolerance)
    if found is not None:
        return found
    written = unshared_write(whole.writes, [part.writes for part in parts], tolerance)
    if written is not None:
        return StepVerdict(Cause.WRITTEN, f"what it writes by {written}")
    are_exact, have_rows = True, True
    for value, *of_parts in zip(whole.outputs, *(part.outputs for part in parts), strict=True):
        is_exact = is_of_own_rows(value, of_parts, tolerance)
        are_exact &= is_exact
        if isinstance(value, np.ndarray):
            have_rows &= Kind.ROWS in kinds(value, of_parts, tolerance) if is_exact else _has_rows(value, of_parts)
    if not are_exact:
        return StepVerdict(Cause.COUPLED, "what it returns for a sample", has_constants=not have_rows)
    return StepVerdict(has_constants=not have_rows)


def _has_rows(value: np.ndarray, of_parts: Sequence[Any]) -> bool:
    """Returns whether a value that is computed from all rows has as many as they, whose parts have fewer."""
    return value.ndim > 0 and all(len(part) < len(value) for part in of_parts)


_LARGE_GRADIENTS = 1e4
"""Gradients so many times as large are beyond what any step clips them to."""


_LEFT_OUT = [int(label) for label in IGNORED if not math.isnan(label)]
"""Labels that steps may leave out; one need not take them."""


# With one loss a sample, TensorFlow takes the gradient of their sum.
_OTHER_MODES = (
    Mode(sums=True),
    Mode(stacks=True),
    Mode(sums=True, stacks=True),
    Mode(sums_at_tape=True),
    Mode(sums=True, sums_at_tape=True),
    Mode(stacks=True, sums_at_tape=True),
)
"""From cheap to dear."""

_UNEQUAL_SHARES = StepVerdict(
    Cause.UNEQUAL, "what it computes with a gradient", is_of_gradients=True, draws_several=True
)
"""It ends in the gradient, and what it draws until then is not known."""

_MAY_BE_OTHERWISE = (Cause.SUM, Cause.COUPLED, Cause.ASSIGNED)


@dataclass(frozen=True)
class _Draw:
    """The inputs and settings with which a step is tried out.

    Attributes:
        inputs: Its data.
        gradient_scale: By how much the gradients that it computes are made larger.
        is_late: Whether variables are as they may be late in the training.
        must_run: Whether it shows nothing good of a step if it fails on it, or gives no numbers.
    """

    inputs: Inputs
    gradient_scale: float = 1.0
    is_late: bool = False
    must_run: bool = True


def try_out(
    model: keras.Model, step: Step, data: Any, gather: Gather, *, are_equal: bool, summed_at_tape: bool = False
) -> StepVerdict:
    """Runs a step on made-up rows as on one replica and as on two, and compares what it does.

    Nothing is applied or assigned.

    Args:
        model: Compiled and built.
        step: Its `train_step` or `test_step`.
        data: The data that it is called with, of which structure, shapes and dtypes count.
        gather: Makes of a method one that takes the rows of all replicas.
        are_equal: Whether all replicas are known to have as many samples.
        summed_at_tape: Whether only ways count in which it gets the gradients of all replicas.
    """
    try:
        proper, large = made_up(data, Numbers.PROPER), made_up(data, Numbers.LARGE)
        draws = [_Draw(proper), _Draw(large, _LARGE_GRADIENTS)]
        # With some weights, what only counts late is below the tolerance beside a loss of proper numbers.
        draws.extend(_Draw(inputs, is_late=True, must_run=False) for inputs in (proper, large))
        ignoring = (proper.with_labels(label) for label in _LEFT_OUT)
        draws.extend(_Draw(inputs, must_run=False) for inputs in ignoring if inputs is not None)
    except ValueError as error:
        return failed(error)

    trial = _StepTrial(model, step, draws, gather)

    return in_trial(lambda: _of_modes(trial, are_equal=are_equal, summed_at_tape=summed_at_tape))


@dataclass(frozen=True)
class _StepTrial:
    """A step, what it is tried out with, and how its rows are split."""

    model: keras.Model
    step: Step
    draws: Sequence[_Draw]
    gather: Gather
    split: Split = UNEQUAL


def _of_modes(trial: _StepTrial, *, are_equal: bool, summed_at_tape: bool) -> StepVerdict:
    with noting_methods(trial.model) as methods:
        found = _verdict(trial, Mode())
    if found.cause is Cause.UNEQUAL and are_equal:
        found = _of_modes(replace(trial, split=EQUAL), are_equal=False, summed_at_tape=summed_at_tape)
        return replace(found, needs_equal_shares=True)
    modes = list(_OTHER_MODES) if summed_at_tape or found.cause in _MAY_BE_OTHERWISE else []
    if found.cause in (Cause.COUPLED, Cause.UNEQUAL) and not summed_at_tape:
        modes.extend(_modes_that_gather(methods, found))
    for mode in modes:
        is_useless = mode.sums and not found.is_of_gradients and not mode.sums_at_tape
        if is_useless or (mode.stacks and not found.draws_several) or (summed_at_tape and not mode.sums_at_tape):
            continue
        other = _verdict(trial, mode)
        if other.cause is Cause.EXACT:
            return replace(other, mode=mode)
    return found


def _modes_that_gather(methods: Sequence[str], found: StepVerdict) -> list[Mode]:
    all_stacks = (False, True) if found.cause is Cause.UNEQUAL else (found.draws_several,)
    return [
        Mode(sums=sums, stacks=stacks, gathered_methods=names)
        for names in ways_to_gather(methods)
        for stacks in all_stacks
        for sums in (False, True)
    ]


def _verdict(trial: _StepTrial, mode: Mode) -> StepVerdict:
    failure, learned = failed(ValueError("its gradients are zero, or no numbers")), None
    for draw in trial.draws:
        try:
            results = _run(trial, draw, mode)
            tolerance = OF_NETWORKS * tolerance_of(trial.model)
            verdict = compared(results, tolerance, split=trial.split, mode=mode)
        except Exception as error:  # Whatever the user's code raises on values that are not its own.
            if is_of_unequal_shares(error):
                return _UNEQUAL_SHARES
            failure = failed(error) if draw.must_run else failure
            continue
        if verdict is not None and verdict.cause is not Cause.EXACT:
            return replace(verdict, draws_several=results.draws_several)
        if verdict is not None and draw.must_run:
            learned = replace(verdict, updates=known_updates(results), gathered=results.parts[0].gathered)
    return learned or failure


def _run(trial: _StepTrial, draw: _Draw, mode: Mode) -> OneAndTwo[StepResults]:
    kept = KeptState(trial.model, trial.step)
    before = Before(trial.model, kept)
    methods = functools.partial(replaced_methods, trial.model, mode.gathered_methods, trial.gather)

    def results(part: slice, scope: Assignments) -> StepResults:
        # As far as the step is concerned: it may compute with their results, which two replicas add up.
        for metric in before.metrics:
            metric.reset_state()
        before.leave_unscaled(scope)
        if draw.is_late:
            before.set_late(scope)
        with capturing(draw.gradient_scale) as capture, noting_writes() as writes, methods():
            logs = trial.step(draw.inputs.rows(part))
        replica = current_step()
        gathered = () if replica is None else tuple(replica.noted.gathered)
        return StepResults(capture.updates, capture.readings, _scalars(logs), before.assigned(scope), gathered, writes)

    return on_one_and_two(results, kept, users=True, mode=mode, split=trial.split)


def _scalars(logs: Any) -> dict[str, NDArray]:
    """The logs that are computed by hand, by name; on one replica all that may be such."""
    flat = (
        {str(path[-1]): value for path, value in keras.tree.flatten_with_path(logs)} if isinstance(logs, dict) else {}
    )
    scalars = {name: np.asarray(value) for name, value in flat.items() if keras.ops.is_tensor(value)}
    step = current_step()
    if step is not None:
        results = {id(result) for result, _ in step.noted.results}
        scalars = {name: scalars[name] for name in scalars if id(flat[name]) not in results}
    return {name: value for name, value in scalars.items() if not value.ndim and value.dtype.kind == "f"}
