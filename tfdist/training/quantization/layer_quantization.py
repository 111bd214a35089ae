"""Quantization of single layers: which a mode covers, by which method, and what a file must say of them."""

from __future__ import annotations

import math
import warnings
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import keras
import tensorflow as tf

from tfdist.keras_repairs.files.quantized_layers import record_nested_policies, walk
from tfdist.training.quantization.calibrated_kernel import (
    KINDS,
    RoundedKernel,
    fill_layer,
    layout_of,
    quantize_layer,
    round_kernel,
    takes_rank_for_shape,
)
from tfdist.training.quantization.input_moments import InputMoments


class QuantizationMethod(Protocol):
    """The way in which layers are quantized.

    Attributes:
        mode: Keras's name of it.
        covered: The classes that it covers, for errors.
    """

    @property
    def mode(self) -> str: ...

    @property
    def covered(self) -> str: ...

    def quantize(self, name: str, layer: keras.layers.Layer) -> bool:
        """Quantizes a layer that has weights, in place; returns whether it is covered."""
        ...


@dataclass(frozen=True)
class KerasMethod:
    """Quantization by `layer.quantize(mode)`.

    Attributes:
        mode: Keras's name of it.
    """

    mode: str
    covered: str = "Dense, EinsumDense (those of attention layers, too), Embedding and ReversibleEmbedding"

    def quantize(self, name: str, layer: keras.layers.Layer) -> bool:
        """See `QuantizationMethod`."""
        if takes_rank_for_shape(layer):
            return False
        try:
            layer.quantize(self.mode)
        except NotImplementedError:
            return False  # how Keras says that it has no such mode for this class
        return True


@dataclass(frozen=True)
class CalibratedMethod:
    """Kernels that GPTQ or AWQ has rounded; tables of embeddings, which have no such inputs, as int8 or int4 has them.

    Attributes:
        mode: `gptq` or `awq`.
        bits: Of a weight.
        group_size: How many inputs of an output have a scale together; -1 for all.
        kernels: Name of a layer -> its kernel; a layer without one gets variables without values.
    """

    mode: str
    bits: int
    group_size: int
    kernels: dict[str, RoundedKernel] = field(default_factory=dict)
    covered: str = KerasMethod.covered

    def take(self, name: str, layer: keras.layers.Layer, moments: InputMoments) -> None:
        """Rounds the kernel of a layer in float."""
        self.kernels[name] = round_kernel(layer, moments, self.mode, self.bits, self.group_size)

    def quantize(self, name: str, layer: keras.layers.Layer) -> bool:
        """See `QuantizationMethod`."""
        if type(layer) not in KINDS:
            return KerasMethod(f"int{self.bits}").quantize(name, layer)
        if layout_of(layer) is None:
            return False
        quantize_layer(layer, self.mode, self.bits, self.group_size)
        if name in self.kernels:
            fill_layer(layer, self.kernels[name], self.bits)
        return True


def input_sizes(layers: Mapping[str, keras.layers.Layer]) -> dict[str, int]:
    """The numbers of an input, of those layers that can be calibrated."""
    layouts = {name: layout_of(layer) for name, layer in layers.items()}
    return {name: layout.inputs for name, layout in layouts.items() if layout is not None}


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
