"""The layers with a kernel that Keras keeps as a matrix of inputs and outputs once GPTQ or AWQ has quantized it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import keras

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
