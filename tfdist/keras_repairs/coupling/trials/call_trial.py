"""Tries out the user's layers and models: do rows, assigned variables or added losses depend on the other rows?

The layers inside run as on replicas, and what they couple is gathered there; so what is found is what the model does
with its rows between them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras.src import backend
from numpy.typing import NDArray

from tfdist.keras_repairs.base.loss_scope import Kind
from tfdist.keras_repairs.base.replica_step import current_step
from tfdist.keras_repairs.coupling import call_scope
from tfdist.keras_repairs.coupling.trials.kept_state import KeptState, value_of
from tfdist.keras_repairs.coupling.trials.made_up_inputs import Inputs, Numbers, made_up
from tfdist.keras_repairs.coupling.trials.recorded_layers import Recording, RowsDiffer
from tfdist.keras_repairs.coupling.trials.replica_trial import Assignments, OneAndTwo, on_one_and_two
from tfdist.keras_repairs.coupling.trials.split_comparison import (
    OF_NETWORKS,
    PARTS,
    comparable,
    is_of_own_rows,
    is_same,
    kinds,
    tolerance_of,
)
from tfdist.keras_repairs.coupling.trials.trial_notes import Write, noting_writes, unshared_write
from tfdist.keras_repairs.coupling.trials.trial_scope import in_trial
from tfdist.text import safe_str


@dataclass(frozen=True)
class CallVerdict:
    """The verdict of a trial on a layer or model.

    Attributes:
        reason: Why it has to be called with the rows of all replicas, as half a sentence; empty where it has not.
        losses: What it gives to `add_loss`, one kind a term.
    """

    reason: str = ""
    losses: tuple[Kind, ...] = ()


@dataclass(frozen=True)
class CallResults:
    """The results of a call: what it has done.

    Attributes:
        outputs: Of `output_values`.
        state: What was assigned to variables of Keras, by path.
        losses: What was given to `add_loss`.
        variables: The values of `tf.Variable`s after it, with their names, which need not be unique.
        writes: What it was to write.
    """

    outputs: Sequence[Any]
    state: Mapping[str, NDArray]
    losses: Sequence[NDArray]
    variables: Sequence[tuple[str, NDArray]] = ()
    writes: Sequence[Write] = ()


def output_values(outputs: Any) -> list[Any]:
    """The tensors of what a call returns, and then their Keras masks, as arrays; anything else as it is."""
    leaves = tf.nest.flatten(outputs)
    return [comparable(leaf) for leaf in [*leaves, *(backend.get_keras_mask(leaf) for leaf in leaves)]]


def not_tried(error: Exception) -> CallVerdict:
    """The verdict where the code that is tried out raises `error`, whatever it is."""
    text = f"{type(error).__name__}: {safe_str(error)}".splitlines()[0]
    return CallVerdict(f"it could not be tried out ({text})")


def verdict_of(
    whole: CallResults, parts: Sequence[CallResults], tolerance: float, *, tolerance_of_state: float
) -> CallVerdict:
    """Compares what a call gives for the whole batch with what it gives for its parts.

    Args:
        whole: Of the whole batch.
        parts: Of its parts.
        tolerance: By how much outputs and losses may differ, relative to the largest number.
        tolerance_of_state: Likewise what is assigned.
    """
    if any(len(part.outputs) != len(whole.outputs) or len(part.losses) != len(whole.losses) for part in parts):
        return CallVerdict("it returns or adds other things for a part of a batch than for all of it")
    for value, *of_parts in zip(whole.outputs, *(part.outputs for part in parts), strict=True):
        if not is_of_own_rows(value, of_parts, tolerance):
            return CallVerdict("what it returns for a sample depends on the other samples of its batch")
    assigned = _assigned_by_samples(whole, parts, tolerance_of_state)
    if assigned is not None:
        return CallVerdict(f"it assigns to {assigned} what depends on the samples of the batch")
    written = unshared_write(whole.writes, [part.writes for part in parts], tolerance)
    if written is not None:
        return CallVerdict(f"it writes by {written} what is computed from the batch")
    found = []
    for value, *of_parts in zip(whole.losses, *(part.losses for part in parts), strict=True):
        possible = kinds(value, of_parts, tolerance)
        if not possible:
            return CallVerdict("what it gives to add_loss is neither a mean nor a sum over the samples")
        found.append(next(kind for kind in Kind if kind in possible))
    return CallVerdict(losses=tuple(found))


def _assigned_by_samples(whole: CallResults, parts: Sequence[CallResults], tolerance: float) -> str | None:
    """A variable that has other values after a part of the batch than after all of it, as the text names it."""
    for path, value in whole.state.items():
        if any(path not in part.state or not is_same(value, part.state[path], tolerance) for part in parts):
            return repr(path)
    for (name, value), *others in zip(whole.variables, *(part.variables for part in parts), strict=True):
        if any(not is_same(value, of_part, tolerance) for _, of_part in others):
            return f"{name!r}, a tf.Variable,"
    return None


def try_out_model(model: keras.Model, call: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> CallVerdict:
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
    return in_trial(lambda: _model_verdict(model, call, draws))


def _model_verdict(model: keras.Model, call: Function, draws: Sequence[Inputs]) -> CallVerdict:
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


Function = Callable[..., Any]


def try_out_layer(layer: Any, call: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> CallVerdict:
    """Calls a layer with made-up rows, and with the first and the last of them alone, and compares what it does.

    Args:
        layer: A built layer.
        call: Calls it: `call(*args, **kwargs)`.
        args: Arguments that it is called with, of which structure, shapes and dtypes count.
        kwargs: Likewise, by name.
    """
    try:
        draws = [made_up((args, kwargs), numbers) for numbers in (Numbers.NORMAL, Numbers.PROPER)]
    except ValueError as error:
        return not_tried(error)
    return in_trial(lambda: _layer_verdict(layer, call, draws))


def _layer_verdict(layer: Any, call: Function, draws: Sequence[Inputs]) -> CallVerdict:
    failed = CallVerdict()
    for inputs in draws:
        try:
            recording, kept = Recording(layer), KeptState(layer)
            whole = _results(layer, call, inputs, slice(None), recording, kept)
            parts = [_results(layer, call, inputs, part, recording, kept) for part in PARTS]
        except RowsDiffer:
            return CallVerdict("what it computes for a sample depends on the other samples of its batch")
        except Exception as error:  # Whatever the user's code raises on values that are not its own.
            failed = not_tried(error)
            continue
        return verdict_of(whole, parts, tolerance_of(layer), tolerance_of_state=0.0)
    return failed


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
