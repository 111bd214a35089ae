"""Quantization of single layers of a Keras model: which a mode covers, and what a file must say of them."""

from __future__ import annotations

import math
import warnings
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

import keras
import tensorflow as tf

from tfdist.keras_repairs.files.quantized_layers import record_nested_policies, walk
from tfdist.training.quantization.quantization_method import QuantizationMethod


@dataclass(frozen=True)
class LayerFacts:
    """A layer that has weights.

    Attributes:
        name: Its path in the model, which no other layer has.
        kind: Its class.
        size: Bytes of its weights.
    """

    name: str
    kind: str
    size: int


def layers_by_name(model: keras.Model) -> dict[str, keras.layers.Layer]:
    """The layers of a model that hold no other layer, in the order in which Keras walks them, by their paths.

    Where two have the same path, as in two submodels, the later one has its number behind it: `dense:2`.
    """
    found: dict[str, keras.layers.Layer] = {}
    for layer in _leaves(model):
        path = layer.path or layer.name
        name, number = path, 1
        while name in found:
            number += 1
            name = f"{path}:{number}"
        found[name] = layer
    return found


def facts_of(layers: Mapping[str, keras.layers.Layer]) -> dict[str, LayerFacts]:
    """Returns what is known of those that have weights."""
    return {
        name: LayerFacts(name, type(layer).__name__, weight_bytes(layer))
        for name, layer in layers.items()
        if layer.weights
    }


def weight_bytes(layer: keras.layers.Layer) -> int:
    """Bytes of the weights of a layer, or of a model, each counted once."""
    each = {id(variable): variable for variable in layer.weights}.values()
    return sum(tf.as_dtype(variable.dtype).size * math.prod(variable.shape) for variable in each)


def quantize_layers(model: keras.Model, names: Collection[str], method: QuantizationMethod) -> frozenset[str]:
    """Quantizes layers in place, and lets the model's file say so.

    Args:
        model: Built, and not yet used by `fit`, `evaluate` or `predict`.
        names: By `layers_by_name`.
        method: How.

    Returns:
        Those that the method covers.
    """
    covered = frozenset(
        name
        for name, layer in layers_by_name(model).items()
        if name in names and layer.built and layer.weights and method.quantize(name, layer)
    )
    record_nested_policies(model)
    return covered


def quantized_names(model: keras.Model) -> frozenset[str]:
    """The layers that are quantized."""
    return frozenset(name for name, layer in layers_by_name(model).items() if layer.quantization_mode is not None)


def recordable_names(model: keras.Model) -> frozenset[str]:
    """Those quantized layers of a model of which a file of it says that they are.

    A layer that holds others hands them the dtype policy that its config has, as Keras's attention layers do. One of a
    user's own that does not makes its layers in float again when Keras loads it, and their weights would not fit.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the optimizer, which nobody uses
        again = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(model))
    return quantized_names(model) & quantized_names(again)


def _leaves(model: keras.Model) -> Iterator[keras.layers.Layer]:
    return (layer for layer in walk(model) if len(list(walk(layer))) == 1)
