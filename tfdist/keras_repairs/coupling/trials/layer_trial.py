"""Tries out the user's layers: do rows, assigned variables or added losses depend on the other rows of the batch?"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np

from tfdist.keras_repairs.coupling import call_scope
from tfdist.keras_repairs.coupling.trials.call_verdict import (
    CallResults,
    CallVerdict,
    not_tried,
    output_values,
    verdict_of,
)
from tfdist.keras_repairs.coupling.trials.kept_state import KeptState, value_of
from tfdist.keras_repairs.coupling.trials.made_up_inputs import Inputs, made_up
from tfdist.keras_repairs.coupling.trials.noted_writes import noting_writes
from tfdist.keras_repairs.coupling.trials.recorded_layers import Recording, RowsDiffer
from tfdist.keras_repairs.coupling.trials.split_comparison import PARTS, tolerance_of
from tfdist.keras_repairs.coupling.trials.trial_scope import in_trial

Function = Callable[..., Any]


def try_out(layer: Any, call: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> CallVerdict:
    """Calls a layer with made-up rows, and with the first and the last of them alone, and compares what it does.

    Args:
        layer: A built layer.
        call: Calls it: `call(*args, **kwargs)`.
        args: Arguments that it is called with, of which structure, shapes and dtypes count.
        kwargs: Likewise, by name.
    """
    try:
        inputs = made_up((args, kwargs))
    except ValueError as error:
        return not_tried(error)
    return in_trial(lambda: _verdict(layer, call, inputs))


def _verdict(layer: Any, call: Function, inputs: Inputs) -> CallVerdict:
    try:
        recording, kept = Recording(layer), KeptState(layer)
        whole = _results(layer, call, inputs, slice(None), recording, kept)
        parts = [_results(layer, call, inputs, part, recording, kept) for part in PARTS]
    except RowsDiffer:
        return CallVerdict("what it computes for a sample depends on the other samples of its batch")
    except Exception as error:  # Whatever the user's code raises on values that are not its own.
        return not_tried(error)
    return verdict_of(whole, parts, tolerance_of(layer), tolerance_of_state=0.0)


def _results(
    layer: Any, call: Function, inputs: Inputs, part: slice, recording: Recording, kept: KeptState
) -> CallResults:
    args, kwargs = inputs.rows(part)
    with (
        kept.restored(),
        keras.StatelessScope() as scope,
        call_scope.collecting() as losses,
        recording.of(part),
        noting_writes() as writes,
    ):
        outputs = call(*args, **kwargs)
        assigned = [(variable.name, value_of(variable)) for variable in kept.variables]
    state = {
        variable.path: np.asarray(value)
        for variable in layer.variables
        if not recording.has_variable(variable) and "seed_generator_state" not in variable.path
        if (value := scope.get_current_value(variable)) is not None
    }
    variables = [
        pair for pair, variable in zip(assigned, kept.variables, strict=True) if not recording.has_variable(variable)
    ]
    terms = [np.asarray(term) for term in losses.get(id(layer), ())]
    return CallResults(output_values(outputs), state, terms, variables, writes)
