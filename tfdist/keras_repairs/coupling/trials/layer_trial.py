"""Tries out the user's layers: do rows, assigned variables or added losses depend on the other rows of the batch?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras.src import backend
from numpy.typing import NDArray

from tfdist.keras_repairs.coupling import collected_losses
from tfdist.keras_repairs.coupling.trials.kept_state import KeptState, value_of
from tfdist.keras_repairs.coupling.trials.made_up_inputs import Inputs, made_up
from tfdist.keras_repairs.coupling.trials.part_comparison import (
    PARTS,
    Kind,
    is_of_own_rows,
    is_same,
    kinds,
    tolerance_of,
)
from tfdist.keras_repairs.coupling.trials.recorded_layers import Recording, RowsDiffer
from tfdist.keras_repairs.coupling.trials.trial_scope import in_trial

Function = Callable[..., Any]


@dataclass(frozen=True)
class LayerVerdict:
    """What a trial has shown of a layer.

    Attributes:
        reason: Why it has to be called with the rows of all replicas, as half a sentence; empty where it has not.
        losses: What it gives to `add_loss`, one kind a term.
    """

    reason: str = ""
    losses: tuple[Kind, ...] = ()


@dataclass(frozen=True)
class _Results:
    outputs: list[Any]
    state: dict[str, NDArray]
    variables: list[tuple[str, NDArray]]
    losses: list[NDArray]


def try_out(layer: Any, call: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> LayerVerdict:
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
        return _not_tried(error)
    return in_trial(lambda: _verdict(layer, call, inputs))


def _not_tried(error: Exception) -> LayerVerdict:
    return LayerVerdict(f"it could not be tried out ({type(error).__name__}: {error})".splitlines()[0])


def _verdict(layer: Any, call: Function, inputs: Inputs) -> LayerVerdict:
    try:
        recording, kept = Recording(layer), KeptState(layer)
        whole = _results(layer, call, inputs, slice(None), recording, kept)
        parts = [_results(layer, call, inputs, part, recording, kept) for part in PARTS]
    except RowsDiffer:
        return LayerVerdict("what it computes for a sample depends on the other samples of its batch")
    except Exception as error:  # Whatever the user's code raises on values that are not its own.
        return _not_tried(error)
    return _compared(whole, parts, tolerance_of(layer))


def _compared(whole: _Results, parts: Sequence[_Results], tolerance: float) -> LayerVerdict:
    if any(len(part.outputs) != len(whole.outputs) or len(part.losses) != len(whole.losses) for part in parts):
        return LayerVerdict("it returns or adds other things for a part of a batch than for all of it")
    for value, *of_parts in zip(whole.outputs, *(part.outputs for part in parts), strict=True):
        if not is_of_own_rows(value, of_parts, tolerance):
            return LayerVerdict("what it returns for a sample depends on the other samples of its batch")
    for path, value in whole.state.items():
        if any(not _is_assigned(value, part.state.get(path)) for part in parts):
            return LayerVerdict(f"it assigns to {path!r} what depends on the samples of the batch")
    for (name, value), *others in zip(whole.variables, *(part.variables for part in parts), strict=True):
        if any(not _is_assigned(value, of_part) for _, of_part in others):
            return LayerVerdict(f"it assigns to {name!r}, a tf.Variable, what depends on the samples of the batch")
    found = []
    for value, *of_parts in zip(whole.losses, *(part.losses for part in parts), strict=True):
        possible = kinds(value, of_parts, tolerance)
        if not possible:
            return LayerVerdict("what it gives to add_loss is neither a mean nor a sum over the samples")
        found.append(next(kind for kind in Kind if kind in possible))
    return LayerVerdict(losses=tuple(found))


def _is_assigned(whole: NDArray, part: NDArray | None) -> bool:
    """Whether a part of the batch has assigned the same to a variable as all of it."""
    return part is not None and is_same(whole, part, tolerance=0.0)


def _results(
    layer: Any, call: Function, inputs: Inputs, part: slice, recording: Recording, kept: KeptState
) -> _Results:
    args, kwargs = inputs.rows(part)
    with (
        kept.restored(),
        keras.StatelessScope() as scope,
        collected_losses.collecting() as losses,
        recording.of(part),
    ):
        outputs = call(*args, **kwargs)
        assigned = [(variable.name, value_of(variable)) for variable in kept.variables]
    state = {
        variable.path: np.asarray(value)
        for variable in layer.variables
        if not recording.has_variable(variable) and "seed_generator_state" not in variable.path
        if (value := scope.get_current_value(variable)) is not None
    }
    values = [_array(leaf) for leaf in tf.nest.flatten(outputs, expand_composites=True)]
    masks = [_array(backend.get_keras_mask(leaf)) for leaf in tf.nest.flatten(outputs)]
    variables = [
        pair for pair, variable in zip(assigned, kept.variables, strict=True) if not recording.has_variable(variable)
    ]
    return _Results(values + masks, state, variables, [np.asarray(term) for term in losses.get(id(layer), ())])


def _array(leaf: Any) -> Any:
    return np.asarray(leaf) if isinstance(leaf, tf.Tensor | np.ndarray) else leaf
