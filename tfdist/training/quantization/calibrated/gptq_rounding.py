"""GPTQ: weights are rounded one input after another, and those that are left make up for what was lost.

Frantar et al., "GPTQ: Accurate post-training quantization for generative pre-trained transformers" (2023). Keras 3.15
propagates errors by rows of the whole inverse of the Hessian; the method wants that of the inputs that are left, which
are the rows of its Cholesky factor.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tfdist.training.quantization.calibrated.rounding_groups import RoundedKernel, group_parameters, nearest_levels

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
