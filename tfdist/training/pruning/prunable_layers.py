"""The layers of a model that are pruned: those that can be, less what a user leaves out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import keras

from tfdist.config.field_errors import nearest
from tfdist.errors import UsageError
from tfdist.keras_repairs.model_checks.model_facts import layers_of
from tfdist.text import safe_repr
from tfdist.training.pruning.sparsity import CHANNELS, Structure

_CONVOLUTIONS = (keras.layers.Conv1D, keras.layers.Conv2D, keras.layers.Conv3D)
_OTHERS = (
    keras.layers.EinsumDense,
    keras.layers.Conv1DTranspose,
    keras.layers.Conv2DTranspose,
    keras.layers.Conv3DTranspose,
)
"""Layers whose kernels have inputs and outputs at other places than the last two axes."""


@dataclass(frozen=True)
class PrunableLayer:
    """A layer that is pruned.

    Attributes:
        name: Its name; its path where another layer has the same name.
        layer: The layer.
        kernel: What is pruned of it.
    """

    name: str
    layer: keras.layers.Layer
    kernel: keras.Variable


def prunable_layers(
    model: keras.Model, structure: Structure, layers: Sequence[str] | None = None, skip: Sequence[str] = ()
) -> list[PrunableLayer]:
    """The layers to prune, in the order of the model.

    Args:
        model: A built model.
        structure: What is pruned together.
        layers: Names or paths of the layers to prune; None for all that can be.
        skip: Those to leave as they are.

    Raises:
        UsageError: A name is unknown, a layer cannot be pruned, there is none, or a pattern does not fit its inputs.
    """
    known = _named(layers_of(model))
    for option, names in (("layers", layers or ()), ("skip", skip)):
        _check_names(option, names, known)
    asked = None if layers is None else {_name_of(name, known) for name in layers}
    left_out = {_name_of(name, known) for name in skip}
    found = []
    for name, layer in known.items():
        if name in left_out or (asked is not None and name not in asked):
            continue
        reason = why_not(layer, structure)
        if reason is None:
            found.append(PrunableLayer(name, layer, layer.kernel))
        elif asked is not None:
            raise UsageError(
                f"The layer {name} cannot be pruned: it {reason}. Expected {_expected(structure)}. Leave it out of "
                "the layers."
            )
    if not found:
        raise UsageError(
            f"There is no layer to prune in the model {model.name}. Expected {_expected(structure)}. Received: "
            f"{', '.join(f'{name} ({type(layer).__name__})' for name, layer in known.items()) or 'no layers'}"
        )
    _check_pattern(found, structure)
    return found


def why_not(layer: keras.layers.Layer, structure: Structure) -> str | None:
    """Returns why a layer cannot be pruned; None where it can."""
    plain = structure.is_pattern or structure.name == CHANNELS
    kinds = (keras.layers.Dense, *_CONVOLUTIONS, *(() if plain else _OTHERS))
    if not isinstance(layer, kinds):
        return f"is a {type(layer).__name__}"
    if not layer.built:
        return "is not built"
    kernel = getattr(layer, "kernel", None)
    if not isinstance(kernel, keras.Variable):
        return "has a kernel that is computed, as one with LoRA or of quantized weights"
    if not any(kernel is variable for variable in layer.trainable_weights):
        return "is not trainable"
    if structure.name == CHANNELS and getattr(layer, "groups", 1) > 1:
        return f"is a convolution of {layer.groups} groups"
    return None


def _named(layers: Iterable[keras.layers.Layer]) -> dict[str, keras.layers.Layer]:
    listed = list(layers)
    counts = Counter(layer.name for layer in listed)
    named: dict[str, keras.layers.Layer] = {}
    for layer in listed:
        name = layer.name if counts[layer.name] == 1 else layer.path
        while name in named:
            name += "_"
        named[name] = layer
    return named


def _name_of(name: str, known: dict[str, keras.layers.Layer]) -> str | None:
    if name in known:
        return name
    return next((other for other, layer in known.items() if layer.path == name), None)


def _check_names(option: str, names: Sequence[str], known: dict[str, keras.layers.Layer]) -> None:
    if isinstance(names, str) or not all(isinstance(name, str) for name in names):
        raise UsageError(f"Expected {option} to be a list of names of layers. Received: {option}={safe_repr(names)}")
    for name in names:
        if _name_of(name, known) is None:
            near = nearest(name, list(known))
            hint = f" Did you mean {near}?" if near else ""
            raise UsageError(
                f"The model has no layer {name}.{hint} Expected one of {', '.join(known)}. Received: {option} with "
                f"{name}"
            )


def _expected(structure: Structure) -> str:
    kinds = "Dense or Conv layers" if structure.is_pattern or structure.name == CHANNELS else (
        "Dense, EinsumDense, Conv or ConvTranspose layers"
    )
    return f"trainable {kinds}"


def _check_pattern(found: Sequence[PrunableLayer], structure: Structure) -> None:
    if not structure.is_pattern:
        return
    unfit = {each.name: each.kernel.shape[-2] for each in found if each.kernel.shape[-2] % structure.group}
    if unfit:
        listed = ", ".join(f"{name} has {inputs}" for name, inputs in unfit.items())
        raise UsageError(
            f"The pattern {structure.name} needs a number of inputs that {structure.group} divides in each layer. "
            f"Received: {listed}. Leave these out: skip {', '.join(unfit)}."
        )
