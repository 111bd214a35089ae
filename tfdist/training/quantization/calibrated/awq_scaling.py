"""AWQ: weights of inputs that are large are made larger before they are rounded, so that they lose less.

Lin et al., "AWQ: Activation-aware weight quantization for on-device LLM compression and acceleration" (2024).
"""

from __future__ import annotations

import dataclasses

import numpy as np
from numpy.typing import NDArray

from tfdist.training.quantization.calibrated.rounding_groups import RoundedKernel, output_error, round_to_nearest

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
