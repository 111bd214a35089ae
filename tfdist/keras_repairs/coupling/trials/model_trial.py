"""Tries out the calls of models: do rows, assigned variables or added losses depend on the other rows of the batch?

The layers inside run as on replicas, and what they couple is gathered there; so what is found is what the model does
with its rows between them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras.src import backend
from numpy.typing import NDArray

from tfdist.keras_repairs.base.replica_step import current_step
from tfdist.keras_repairs.coupling import collected_losses
from tfdist.keras_repairs.coupling.trials.kept_state import KeptState
from tfdist.keras_repairs.coupling.trials.layer_trial import LayerVerdict
from tfdist.keras_repairs.coupling.trials.made_up_inputs import Inputs, Numbers, made_up
from tfdist.keras_repairs.coupling.trials.part_comparison import (
    OF_NETWORKS,
    Kind,
    is_of_own_rows,
    is_same,
    kinds,
    tolerance_of,
)
from tfdist.keras_repairs.coupling.trials.replica_trial import Assignments, OneAndTwo, on_one_and_two
from tfdist.keras_repairs.coupling.trials.trial_scope import in_trial

Function = Callable[..., Any]


@dataclass(frozen=True)
class _Results:
    outputs: list[Any]
    state: dict[str, NDArray]
    losses: list[NDArray]


def try_out(model: keras.Model, call: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> LayerVerdict:
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
        return _not_tried(error)
    return in_trial(lambda: _verdict(model, call, draws))


def _not_tried(error: Exception | str) -> LayerVerdict:
    text = error if isinstance(error, str) else f"{type(error).__name__}: {error}".splitlines()[0]
    return LayerVerdict(f"it could not be tried out ({text})")


def _verdict(model: keras.Model, call: Function, draws: Sequence[Inputs]) -> LayerVerdict:
    failed = _not_tried("it returns no numbers")
    for inputs in draws:
        try:
            results = _run(model, call, inputs)
        except Exception as error:  # Whatever the user's code raises on values that are not its own.
            failed = _not_tried(error)
            continue
        if all(_has_numbers(value) for value in results.whole.outputs):
            return _compared(results, OF_NETWORKS * tolerance_of(model))
    return failed


def _run(model: keras.Model, call: Function, inputs: Inputs) -> OneAndTwo[_Results]:
    def results(part: slice, scope: Assignments) -> _Results:
        args, kwargs = inputs.rows(part)
        outputs = call(*args, **kwargs)
        step = current_step()
        added = (collected_losses.collected() or {}) if step is None else step.added_losses
        masks = [_array(backend.get_keras_mask(leaf)) for leaf in tf.nest.flatten(outputs)]
        return _Results(
            [_array(leaf) for leaf in tf.nest.flatten(outputs, expand_composites=True)] + masks,
            scope.assigned_arrays(model.variables),
            [np.asarray(term) for term in added.get(id(model), ())],
        )

    return on_one_and_two(results, KeptState(model), users=False)


def _compared(results: OneAndTwo[_Results], tolerance: float) -> LayerVerdict:
    whole, parts = results.whole, results.parts
    if any(len(part.outputs) != len(whole.outputs) or len(part.losses) != len(whole.losses) for part in parts):
        return LayerVerdict("it returns or adds other things for a part of a batch than for all of it")
    for value, *of_parts in zip(whole.outputs, *(part.outputs for part in parts), strict=True):
        if not is_of_own_rows(value, of_parts, tolerance):
            return LayerVerdict("what it returns for a sample depends on the other samples of its batch")
    for path, value in whole.state.items():
        if any(path not in part.state or not is_same(value, part.state[path], tolerance) for part in parts):
            return LayerVerdict(f"it assigns to {path!r} what depends on the samples of the batch")
    found = []
    for value, *of_parts in zip(whole.losses, *(part.losses for part in parts), strict=True):
        possible = kinds(value, of_parts, tolerance)
        if not possible:
            return LayerVerdict("what it gives to add_loss is neither a mean nor a sum over the samples")
        found.append(next(kind for kind in Kind if kind in possible))
    return LayerVerdict(losses=tuple(found))


def _array(leaf: Any) -> Any:
    return np.asarray(leaf) if isinstance(leaf, tf.Tensor | np.ndarray) else leaf


def _has_numbers(value: Any) -> bool:
    """Whether something can be learned of an output: not if none of it is a number."""
    if not isinstance(value, np.ndarray) or value.dtype.kind != "f" or not value.size:
        return True
    return bool(np.isfinite(value).any())
