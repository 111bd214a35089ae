"""Tries out a `predict_step` of the user's: is what it returns for a sample that of one replica?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfdist.keras_repairs.base.loss_scope import Kind
from tfdist.keras_repairs.coupling.trials.kept_state import KeptState
from tfdist.keras_repairs.coupling.trials.made_up_inputs import Inputs, Numbers, made_up
from tfdist.keras_repairs.coupling.trials.noted_writes import noting_writes, unshared_write
from tfdist.keras_repairs.coupling.trials.replica_trial import Assignments, OneAndTwo, on_one_and_two
from tfdist.keras_repairs.coupling.trials.split_comparison import (
    OF_NETWORKS,
    comparable,
    is_of_own_rows,
    kinds,
    tolerance_of,
)
from tfdist.keras_repairs.coupling.trials.steps.assigned_variables import Assigned, Before, of_assigned
from tfdist.keras_repairs.coupling.trials.steps.step_capture import capturing
from tfdist.keras_repairs.coupling.trials.steps.step_verdict import Cause, StepVerdict, failed
from tfdist.keras_repairs.coupling.trials.trial_notes import Write
from tfdist.keras_repairs.coupling.trials.trial_scope import in_trial

Step = Callable[[Any], Any]


@dataclass(frozen=True)
class _Results:
    outputs: list[Any]
    assigned: dict[int, Assigned]
    updates: int
    writes: list[Write]


def try_out(model: keras.Model, step: Step, data: Any) -> StepVerdict:
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
    return in_trial(lambda: _verdict(model, step, draws))


def _verdict(model: keras.Model, step: Step, draws: Sequence[Inputs]) -> StepVerdict:
    found, failure = None, StepVerdict()
    for inputs in draws:
        try:
            verdict = _compared(_run(model, step, inputs), OF_NETWORKS * tolerance_of(model))
        except Exception as error:  # Whatever the user's code raises on values that are not its own.
            failure = failed(error)
            continue
        if verdict.cause is not Cause.EXACT:
            return verdict
        found = verdict
    return found or failure


def _run(model: keras.Model, step: Step, inputs: Inputs) -> OneAndTwo[_Results]:
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
