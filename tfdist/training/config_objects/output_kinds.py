"""Outputs of models for a distillation: their names and shapes, and whether they are logits or probabilities."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import keras

from tfdist.config.field_errors import FieldError, dotted
from tfdist.keras_repairs.distillation.soft_targets import Kind
from tfdist.training.config_objects.keras_names import snake_case
from tfdist.training.model_outputs.output_activations import Gives
from tfdist.training.model_outputs.step_outputs import names_of

_CATEGORICAL = (
    "sparse_categorical_crossentropy",
    "categorical_crossentropy",
    "categorical_focal_crossentropy",
    "kl_divergence",
)
_BINARY = ("binary_crossentropy", "binary_focal_crossentropy")
_BY_SHAPE = ("crossentropy", "ce")
"""Names for which Keras takes the one for two classes where an output has one value."""

_EXPECTED = (
    f"expected beside fit.distill a loss that says whether the model gives logits or probabilities: one of "
    f"{', '.join((*_CATEGORICAL, *_BINARY))}, with from_logits: true for logits"
)


@dataclass(frozen=True)
class LabelLoss:
    """The description of an output by its loss.

    Attributes:
        kind: Which choice the output is.
        gives: What it is.
    """

    kind: Kind
    gives: Gives


def label_losses(model: keras.Model) -> dict[str, LabelLoss]:
    """Returns what the losses of a compiled model say of its outputs, by their names.

    Raises:
        FieldError: A loss takes neither logits nor probabilities.
    """
    losses = _losses_of(model)
    shapes = output_shapes(model) or {}
    return {name: _label_loss(loss, key, shapes.get(name)) for name, (loss, key) in losses.items()}


def _losses_of(model: keras.Model) -> dict[str, tuple[Any, str]]:
    """The loss of each output and its dotted key, by the output's name."""
    given, names = model.loss, list(names_of(model))
    if isinstance(given, Mapping):
        return {name: (loss, dotted("compile.loss", name)) for name, loss in given.items()}
    if isinstance(given, list | tuple):
        named = names if len(names) == len(given) else [f"output_{place}" for place in range(len(given))]
        return {
            name: (loss, dotted("compile.loss", str(place)))
            for place, (name, loss) in enumerate(zip(named, given, strict=True))
        }
    return {name: (given, "compile.loss") for name in (names if len(names) > 1 else ["output"])}


def _label_loss(loss: Any, key: str, shape: Sequence[int | None] | None) -> LabelLoss:
    name = loss if isinstance(loss, str) else _name_of(loss)
    if name in _BY_SHAPE:
        is_binary = shape is not None and shape[-1] == 1
        return LabelLoss("binary" if is_binary else "categorical", "probabilities")
    name = snake_case(_name_of(keras.losses.get(loss)) if isinstance(loss, str) else name)
    if name not in (*_CATEGORICAL, *_BINARY):
        raise FieldError(key, f"{_EXPECTED}. Received: {name}")
    axis = getattr(loss, "axis", -1)
    if axis not in (-1, len(shape or ()) - 1):
        raise FieldError(key, f"expected the classes along the last axis, beside fit.distill. Received: axis {axis}")
    gives: Gives = "logits" if getattr(loss, "from_logits", False) else "probabilities"
    return LabelLoss("binary" if name in _BINARY else "categorical", gives)


def _name_of(loss: Any) -> str:
    """The name of the class of Keras's that a loss is, or that of a function."""
    if not isinstance(loss, keras.losses.Loss):
        return str(getattr(loss, "__name__", type(loss).__name__))
    kinds = [kind for kind in type(loss).__mro__ if kind.__module__.startswith("keras.src.losses.losses")]
    known = [kind.__name__ for kind in kinds if snake_case(kind.__name__) in (*_CATEGORICAL, *_BINARY)]
    return known[0] if known else type(loss).__name__


def output_shapes(model: keras.Model) -> dict[str, tuple[int | None, ...]] | None:
    """The shapes of a model's outputs, with the batch, by name; None where the model does not say."""
    outputs, names = getattr(model, "outputs", None), names_of(model)
    if not outputs or (len(outputs) > 1 and len(outputs) != len(names)):
        return None
    named = names if len(outputs) > 1 else ["output"]
    return {name: tuple(value.shape) for name, value in zip(named, outputs, strict=True)}
