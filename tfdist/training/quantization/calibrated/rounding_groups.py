"""Rounding to a few bits, with a scale and a zero for each group of an output's weights."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


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
