"""A rounded kernel in a layer of Keras, in the variables that Keras has for GPTQ and AWQ.

AWQ: weights of inputs that are large are made larger before they are rounded, so that they lose less.

Lin et al., "AWQ: Activation-aware weight quantization for on-device LLM compression and acceleration" (2024).

GPTQ: weights are rounded one input after another, and those that are left make up for what was lost.

Frantar et al., "GPTQ: Accurate post-training quantization for generative pre-trained transformers" (2023). Keras 3.15
propagates errors by rows of the whole inverse of the Hessian; the method wants that of the inputs that are left, which
are the rows of its Cholesky factor.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
from numpy.typing import NDArray

from tfdist.errors import UnsupportedError
from tfdist.keras_repairs.files.quantized_layers import save_all_weights
from tfdist.training.quantization.input_moments import InputMoments

KINDS = (keras.layers.Dense, keras.layers.EinsumDense)
"""The classes that have such a kernel; Keras quantizes no subclass of them."""


@dataclass(frozen=True)
class KernelLayout:
    """The matrix.

    Attributes:
        inputs: Its rows: the numbers of an input that each output is a sum over.
        outputs: Its columns.
    """

    inputs: int
    outputs: int


def layout_of(layer: keras.layers.Layer) -> KernelLayout | None:
    """The matrix of a built layer; None where it has none, or where Keras would divide its kernel otherwise.

    Args:
        layer: Any layer. Those of `KINDS` can have one.
    """
    if type(layer) not in KINDS or not layer.built or layer.lora_rank:
        return None
    if takes_rank_for_shape(layer):
        return None
    shape = tuple(layer.kernel.shape)
    summed = 1 if type(layer) is keras.layers.Dense else _summed_axes(layer.equation)
    if summed is None or summed != _axes_of_keras(shape):
        return None
    return KernelLayout(math.prod(shape[:summed]), math.prod(shape[summed:]))


def takes_rank_for_shape(layer: keras.layers.Layer) -> bool:
    """Returns whether Keras 3.15 raises a TypeError where it quantizes a layer: an EinsumDense with `...` in its
    equation."""
    return isinstance(layer, keras.layers.EinsumDense) and "..." in layer.equation


def _summed_axes(equation: str) -> int | None:
    """Returns how many axes of the kernel are summed over: the first ones, in the order of the input's last ones."""
    operands, _, output = equation.replace(" ", "").partition("->")
    inputs, _, kernel = operands.partition(",")
    summed = [letter for letter in kernel if letter not in output]
    kept = kernel[len(summed) :]
    is_matrix = kernel.startswith("".join(summed)) and inputs.endswith("".join(summed))
    return len(summed) if summed and is_matrix and not set(kept) & set(inputs) else None


def _axes_of_keras(shape: Sequence[int]) -> int | None:
    """Returns how many axes Keras takes for those of the inputs: of three it goes by where the largest is."""
    if len(shape) == 2:
        return 1
    return None if len(shape) != 3 else 1 if shape[0] == max(shape) else 2


@dataclass(frozen=True)
class RoundedKernel:
    """A kernel of `outputs` times `inputs` weights, as Keras keeps it.

    Attributes:
        levels: uint8 [outputs, inputs].
        scales: float32 [outputs, groups].
        zeros: The level of the number 0, uint8 [outputs, groups].
        groups: The group of each input, int32 [inputs].
        input_scales: By what each input's weights were multiplied before, float32 [inputs]; None for nothing.
    """

    levels: NDArray
    scales: NDArray
    zeros: NDArray
    groups: NDArray
    input_scales: NDArray | None = None

    def weights(self) -> NDArray:
        """Returns what it computes with, float64 [outputs, inputs]."""
        zeros, scales = self.zeros.astype(float)[:, self.groups], self.scales.astype(float)[:, self.groups]
        weights = (self.levels - zeros) * scales
        return weights if self.input_scales is None else weights / self.input_scales.astype(float)


def group_parameters(weights: NDArray, bits: int) -> tuple[NDArray, NDArray]:
    """Scale and zero of one group: 0 has a level, and the least and the largest weight have the outermost ones.

    Args:
        weights: [outputs, inputs of the group].
        bits: Of a weight.

    Returns:
        The scales, float32 [outputs], and the zeros, uint8 [outputs].
    """
    lowest, highest = np.minimum(weights.min(axis=1), 0), np.maximum(weights.max(axis=1), 0)
    lowest, highest = np.where(lowest == highest, -1.0, lowest), np.where(lowest == highest, 1.0, highest)
    most = 2**bits - 1
    scales = ((highest - lowest) / most).astype(np.float32)
    scales = np.maximum(scales, np.finfo(np.float32).tiny)
    return scales, np.clip(np.round(-lowest / scales.astype(float)), 0, most).astype(np.uint8)


def nearest_levels(weights: NDArray, scales: NDArray, zeros: NDArray, bits: int) -> NDArray:
    """The levels that are nearest, uint8; `scales` and `zeros` in a shape that broadcasts with `weights`."""
    return np.clip(np.round(weights / scales.astype(float) + zeros), 0, 2**bits - 1).astype(np.uint8)


def round_to_nearest(weights: NDArray, bits: int, group_size: int) -> RoundedKernel:
    """Each weight by itself.

    Args:
        weights: float64 [outputs, inputs].
        bits: Of a weight.
        group_size: How many inputs one after another have a scale together; -1 for all.
    """
    inputs = weights.shape[1]
    size = inputs if group_size == -1 else group_size
    found = [group_parameters(weights[:, start : start + size], bits) for start in range(0, inputs, size)]
    scales, zeros = (np.stack(parts, axis=1) for parts in zip(*found, strict=True))
    groups = (np.arange(inputs) // size).astype(np.int32)
    return RoundedKernel(nearest_levels(weights, scales[:, groups], zeros[:, groups], bits), scales, zeros, groups)


def output_error(weights: NDArray, rounded: NDArray, gram: NDArray) -> float:
    """Returns how far outputs of rounded weights are from those of the weights: the mean sum of squares of a sample.

    Args:
        weights: [outputs, inputs].
        rounded: The same shape.
        gram: Mean products of the inputs, [inputs, inputs].
    """
    difference = weights - rounded
    return float(np.sum((difference @ gram) * difference))


DAMPING = 0.01
"""The number that is added to the diagonal of the Hessian, as a share of its mean."""

_BLOCK = 128


def gptq_round(weights: NDArray, gram: NDArray, bits: int, group_size: int) -> RoundedKernel:
    """Rounds weights so that outputs change little for inputs such as were seen.

    Inputs come in the order of their magnitudes, the largest first, and a group is of those that follow one another so.

    Args:
        weights: float64 [outputs, inputs].
        gram: Mean products of the inputs, float64 [inputs, inputs].
        bits: Of a weight.
        group_size: How many inputs have a scale together; -1 for all.
    """
    inputs = weights.shape[1]
    size = inputs if group_size == -1 else group_size
    order = np.argsort(-np.diagonal(gram), kind="stable")
    factor = _error_factor(gram[np.ix_(order, order)])
    left = weights[:, order].copy()
    levels = np.zeros(weights.shape, np.uint8)
    parameters: list[tuple[NDArray, NDArray]] = []
    for start in range(0, inputs, _BLOCK):
        stop = min(start + _BLOCK, inputs)
        errors = np.zeros((len(weights), stop - start))
        for column in range(start, stop):
            if column % size == 0:
                # Errors of this block have not reached the columns behind it.
                after = left[:, column : column + size].copy()
                beyond = slice(stop, column + size)
                after[:, stop - column :] -= errors @ factor[start:stop, beyond]
                parameters.append(group_parameters(after, bits))
            scales, zeros = parameters[-1]
            levels[:, column] = nearest_levels(left[:, column], scales, zeros, bits)
            rounded = (levels[:, column] - zeros.astype(float)) * scales.astype(float)
            error = (left[:, column] - rounded) / factor[column, column]
            left[:, column:stop] -= np.outer(error, factor[column, column:stop])
            errors[:, column - start] = error
        left[:, stop:] -= errors @ factor[start:stop, stop:]
    back = np.argsort(order)
    scales, zeros = (np.stack(parts, axis=1) for parts in zip(*parameters, strict=True))
    return RoundedKernel(levels[:, back], scales, zeros, (back // size).astype(np.int32))


def _error_factor(gram: NDArray) -> NDArray:
    """The upper Cholesky factor of the inverse of the damped Hessian; inputs that were 0 throughout stand alone."""
    hessian = gram.copy()
    diagonal = np.einsum("ii->i", hessian)
    diagonal[diagonal == 0] = 1
    diagonal += DAMPING * diagonal.mean()
    return np.linalg.cholesky(np.linalg.inv(hessian)).T


_STEPS = 20
_LEAST = 1e-4


def awq_round(weights: NDArray, gram: NDArray, magnitudes: NDArray, bits: int, group_size: int) -> RoundedKernel:
    """Scales inputs by a power of their magnitudes, the one of 20 with which outputs change least, and rounds.

    The power 0 is among them, which is rounding to the nearest.

    Args:
        weights: float64 [outputs, inputs].
        gram: Mean products of the inputs, float64 [inputs, inputs].
        magnitudes: Mean magnitude of each input, float64 [inputs].
        bits: Of a weight.
        group_size: How many inputs one after another have a scale together; -1 for all.
    """
    best: RoundedKernel | None = None
    least = np.inf
    for step in range(_STEPS):
        power = np.maximum(magnitudes, _LEAST) ** (step / _STEPS)
        scales = (power / np.sqrt(power.max() * power.min())).astype(np.float32)
        rounded = round_to_nearest(weights * scales.astype(float), bits, group_size)
        rounded = dataclasses.replace(rounded, input_scales=scales)
        error = output_error(weights, rounded.weights(), gram)
        if best is None or error < least:
            best, least = rounded, error
    assert best is not None, "there are steps"
    return best


def round_kernel(
    layer: keras.layers.Layer, moments: InputMoments, mode: str, bits: int, group_size: int
) -> RoundedKernel:
    """Rounds the kernel of a layer in float, by the moments of its inputs.

    Args:
        layer: One that has a layout.
        moments: Of its inputs.
        mode: `gptq` or `awq`.
        bits: Of a weight.
        group_size: How many inputs have a scale together; -1 for all.
    """
    weights = kernel_of(layer)
    if mode == "gptq":
        return gptq_round(weights, moments.gram, bits, group_size)
    return awq_round(weights, moments.gram, moments.magnitudes, bits, group_size)


def kernel_of(layer: keras.layers.Layer) -> NDArray:
    """The kernel of a layer in float, float64 [outputs, inputs]."""
    layout = layout_of(layer)
    assert layout is not None, "the layer has a layout"
    kernel = keras.ops.convert_to_numpy(layer.kernel).astype(float)
    return kernel.reshape(layout.inputs, layout.outputs).T


def quantize_layer(layer: keras.layers.Layer, mode: str, bits: int, group_size: int) -> None:
    """Gives a layer the variables of a mode, without values, and lets its file have all of them.

    Raises:
        UnsupportedError: Keras has no such mode.
    """
    layer.quantize(mode, config=_config(mode, bits, group_size))
    # What Keras would write of it speaks of samples that were not read in its way; the policy says the rest.
    layer.quantization_config = None
    save_all_weights(layer)


def fill_layer(layer: keras.layers.Layer, rounded: RoundedKernel, bits: int) -> None:
    """Gives the variables of `quantize_layer` their values."""
    levels = rounded.levels
    if bits == 4:
        levels = keras.quantizers.pack_int4(levels, axis=0, dtype="uint8")[0]
    layer.quantized_kernel.assign(levels)
    layer.kernel_scale.assign(rounded.scales)
    layer.kernel_zero.assign(rounded.zeros)
    layer.g_idx.assign(rounded.groups.astype(np.float32))
    if rounded.input_scales is not None:
        layer.awq_scales.assign(rounded.input_scales)


def _config(mode: str, bits: int, group_size: int) -> Any:
    kind = getattr(keras.quantizers, f"{mode.upper()}Config", None)
    if kind is None:
        raise UnsupportedError(
            f"Keras {keras.__version__} has no {mode}. Expected a version that has it: 3.12 has gptq, 3.14 awq. "
            "Install a later one, or choose --mode gptq or int4."
        )
    return kind(None, None, weight_bits=bits, group_size=group_size)
