"""Tries out the user's steps: are gradients, logs and metrics those of one replica, where two have a part each?"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import keras
import numpy as np
from numpy.typing import NDArray

from tfdist.keras_repairs.base.nested_gradients import is_of_unequal_shares
from tfdist.keras_repairs.base.replica_step import current_step
from tfdist.keras_repairs.base.step_records import Mode
from tfdist.keras_repairs.coupling.trials.kept_state import KeptState
from tfdist.keras_repairs.coupling.trials.made_up_inputs import IGNORED, Inputs, Numbers, made_up
from tfdist.keras_repairs.coupling.trials.noted_writes import noting_writes
from tfdist.keras_repairs.coupling.trials.replica_trial import Assignments, OneAndTwo, on_one_and_two
from tfdist.keras_repairs.coupling.trials.split_comparison import EQUAL, OF_NETWORKS, UNEQUAL, Split, tolerance_of
from tfdist.keras_repairs.coupling.trials.steps.assigned_variables import Before
from tfdist.keras_repairs.coupling.trials.steps.step_capture import capturing
from tfdist.keras_repairs.coupling.trials.steps.step_comparison import StepResults, compared, known_updates
from tfdist.keras_repairs.coupling.trials.steps.step_verdict import Cause, StepVerdict, failed
from tfdist.keras_repairs.coupling.trials.trial_scope import in_trial

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


def try_out(model: keras.Model, step: Callable[[Any], Any], data: Any) -> StepVerdict:
    """Runs a step on made-up rows as on one replica and as on two, and compares what it does.

    Nothing is applied or assigned.

    Args:
        model: Compiled and built.
        step: Its `train_step` or `test_step`.
        data: The data that it is called with, of which structure, shapes and dtypes count.
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

    def verdict() -> StepVerdict:
        try:
            return _of_modes(model, step, draws, UNEQUAL)
        except _UnequalShares:
            # The step itself looks at the shares of every batch. What else is in it shows by equal ones.
            return _of_modes(model, step, draws, EQUAL)

    return in_trial(verdict)


class _UnequalShares(Exception):
    """A step takes gradients of gradients that replicas can compute from equal shares alone."""


def _of_modes(model: keras.Model, step: Callable[[Any], Any], draws: Sequence[_Draw], split: Split) -> StepVerdict:
    found = _verdict(model, step, draws, Mode(), split)
    for mode in _OTHER_MODES if found.cause in _MAY_BE_OTHERWISE else ():
        if (mode.sums and not found.is_of_gradients and not mode.sums_at_tape) or (
            mode.stacks and not found.draws_several
        ):
            continue
        other = _verdict(model, step, draws, mode, split)
        if other.cause is Cause.EXACT:
            return replace(other, mode=mode)
    return found


def _verdict(
    model: keras.Model, step: Callable[[Any], Any], draws: Sequence[_Draw], mode: Mode, split: Split
) -> StepVerdict:
    failure, learned = failed(ValueError("its gradients are zero, or no numbers")), None
    for draw in draws:
        try:
            results = _run(model, step, draw, mode, split)
            verdict = compared(results, OF_NETWORKS * tolerance_of(model), split=split, mode=mode)
        except Exception as error:  # Whatever the user's code raises on values that are not its own.
            if is_of_unequal_shares(error):
                raise _UnequalShares from error
            failure = failed(error) if draw.must_run else failure
            continue
        if verdict is not None and verdict.cause is not Cause.EXACT:
            return replace(verdict, draws_several=results.draws_several)
        if verdict is not None and draw.must_run:
            learned = replace(verdict, updates=known_updates(results), gathered=results.parts[0].gathered)
    return learned or failure


def _run(
    model: keras.Model, step: Callable[[Any], Any], draw: _Draw, mode: Mode, split: Split
) -> OneAndTwo[StepResults]:
    kept = KeptState(model, step)
    before = Before(model, kept)

    def results(part: slice, scope: Assignments) -> StepResults:
        # As far as the step is concerned: it may compute with their results, which two replicas add up.
        for metric in before.metrics:
            metric.reset_state()
        before.leave_unscaled(scope)
        if draw.is_late:
            before.set_late(scope)
        with capturing(draw.gradient_scale) as capture, noting_writes() as writes:
            logs = step(draw.inputs.rows(part))
        replica = current_step()
        gathered = () if replica is None else tuple(replica.noted.gathered)
        return StepResults(capture.updates, capture.readings, _scalars(logs), before.assigned(scope), gathered, writes)

    return on_one_and_two(results, kept, users=True, mode=mode, split=split)


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
