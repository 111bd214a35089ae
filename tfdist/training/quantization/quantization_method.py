"""The methods to quantize one layer: as Keras does by itself, or with weights that samples have chosen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

import keras

from tfdist.training.quantization.calibrated.calibrated_kernel import fill_layer, quantize_layer, round_kernel
from tfdist.training.quantization.calibrated.input_moments import InputMoments
from tfdist.training.quantization.calibrated.kernel_layout import KINDS, layout_of, takes_rank_for_shape
from tfdist.training.quantization.calibrated.rounding_groups import RoundedKernel


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
