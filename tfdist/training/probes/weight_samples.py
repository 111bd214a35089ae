"""Samples of a model's weights: some elements of each, always the same ones, so that two runs can be compared."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

MOST_ELEMENTS = 1 << 16
"""Elements recorded of one weight at one moment."""

_FEWEST_ELEMENTS = 1 << 8
_BUDGET = 1 << 25
"""Elements of a whole recording: 128 MiB in float32."""


def sample(
    weights: Sequence[keras.Variable], moments: int, strategy: tf.distribute.Strategy
) -> tuple[dict[str, np.ndarray], dict[str, float]]:
    """Reads weights; call it outside of the replicas, on every worker.

    Args:
        weights: A model's weights.
        moments: How often they are sampled in this recording.
        strategy: The process's strategy.

    Returns:
        Path -> up to MOST_ELEMENTS elements, 1-D, in float32 or a larger dtype; and path -> the largest absolute
        difference between this worker's copies, where there is one: infinite where one copy alone is not finite.
    """
    most = _most_elements(moments, len(weights))
    sampled: dict[str, np.ndarray] = {}
    differences: dict[str, float] = {}
    for weight in weights:
        path = _unique(weight.path, sampled)
        sampled[path] = _elements(weight.value, most)
        copies = _copies(weight.value, strategy)
        if len(copies) > 1:
            first, *others = (_elements(copy, most).astype(np.float64) for copy in copies)
            difference = max(_largest_difference(first, other) for other in others)
            differences |= {path: difference} if difference else {}
    return sampled, differences


def _largest_difference(one: np.ndarray, other: np.ndarray) -> float:
    """The largest absolute difference of two copies; NaN and infinities are equal to themselves only."""
    parted = ~((one == other) | (np.isnan(one) & np.isnan(other)))
    differences = np.abs(other[parted] - one[parted])
    return float(np.max(np.where(np.isnan(differences), np.inf, differences), initial=0.0))


def _most_elements(moments: int, weights: int) -> int:
    fair = _BUDGET // (moments * max(weights, 1))
    return min(MOST_ELEMENTS, max(_FEWEST_ELEMENTS, fair))


def _elements(value: Any, most: int) -> np.ndarray:
    """Up to `most` elements of a variable or tensor, 1-D, the same ones for the same shape."""
    tensor = tf.convert_to_tensor(value)
    elements = tf.reshape(tensor, [-1])[:: _stride(tensor.shape, most)]
    return (tf.cast(elements, tf.float32) if tensor.dtype in (tf.bfloat16, tf.float16) else elements).numpy()


def _stride(shape: tf.TensorShape, most: int) -> int:
    """The distance of sampled elements; coprime to the last axis, so that every column is visited."""
    stride = -(-shape.num_elements() // most)
    while stride > 1 and math.gcd(stride, shape[-1]) > 1:
        stride += 1
    return max(stride, 1)


def _copies(value: Any, strategy: tf.distribute.Strategy) -> tuple[Any, ...]:
    """This worker's copies of a variable that is mirrored; one copy where each replica may hold a part of a total."""
    if getattr(value, "synchronization", None) == tf.VariableSynchronization.ON_READ:
        return (value,)
    return strategy.experimental_local_results(value)


def _unique(path: str, taken: Mapping[str, Any]) -> str:
    number = 2
    unique = path
    while unique in taken:
        unique, number = f"{path} #{number}", number + 1
    return unique
