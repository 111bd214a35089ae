"""Tries out the calls of models: do rows, assigned variables or added losses depend on the other rows of the batch?

The layers inside run as on replicas, and what they couple is gathered there; so what is found is what the model does
with its rows between them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np

from tfdist.keras_repairs.base.replica_step import current_step
from tfdist.keras_repairs.coupling import call_scope
from tfdist.keras_repairs.coupling.trials.call_verdict import (
    CallResults,
    CallVerdict,
    not_tried,
    output_values,
    verdict_of,
)
from tfdist.keras_repairs.coupling.trials.kept_state import KeptState
from tfdist.keras_repairs.coupling.trials.made_up_inputs import Inputs, Numbers, made_up
from tfdist.keras_repairs.coupling.trials.noted_writes import noting_writes
from tfdist.keras_repairs.coupling.trials.replica_trial import Assignments, OneAndTwo, on_one_and_two
from tfdist.keras_repairs.coupling.trials.split_comparison import OF_NETWORKS, tolerance_of
from tfdist.keras_repairs.coupling.trials.trial_scope import in_trial

Function = Callable[..., Any]


def try_out(model: keras.Model, call: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> CallVerdict:
    """Calls a model with made-up rows as on one replica and as on two, and compares what it does.

    Args:
        model: A built model.
        call: Calls it: `call(*args, **kwargs)`.
        args: Arguments that it is called with, of which structure, shapes and dtypes count.
        kwargs: Likewise, by name.
    """
    try:
        draws = [made_up((args, kwargs), numbers) for numbers in (Numbers.NORMAL, Numbers.PROPER)]
    except ValueError as error:
        return not_tried(error)
    return in_trial(lambda: _verdict(model, call, draws))


def _verdict(model: keras.Model, call: Function, draws: Sequence[Inputs]) -> CallVerdict:
    failed = CallVerdict("it could not be tried out (it returns no numbers)")
    tolerance = OF_NETWORKS * tolerance_of(model)
    for inputs in draws:
        try:
            results = _run(model, call, inputs)
        except Exception as error:  # Whatever the user's code raises on values that are not its own.
            failed = not_tried(error)
            continue
        if all(_has_numbers(value) for value in results.whole.outputs):
            return verdict_of(results.whole, results.parts, tolerance, tolerance_of_state=tolerance)
    return failed


def _run(model: keras.Model, call: Function, inputs: Inputs) -> OneAndTwo[CallResults]:
    def results(part: slice, scope: Assignments) -> CallResults:
        args, kwargs = inputs.rows(part)
        with noting_writes() as writes:
            outputs = call(*args, **kwargs)
        step = current_step()
        added = (call_scope.collected() or {}) if step is None else step.noted.added_losses
        terms = [np.asarray(term) for term in added.get(id(model), ())]
        return CallResults(output_values(outputs), scope.assigned_arrays(model.variables), terms, writes=writes)

    return on_one_and_two(results, KeptState(model), users=False)


def _has_numbers(value: Any) -> bool:
    """Returns whether something can be learned of an output: not if none of it is a number."""
    if not isinstance(value, np.ndarray) or value.dtype.kind != "f" or not value.size:
        return True
    return bool(np.isfinite(value).any())
