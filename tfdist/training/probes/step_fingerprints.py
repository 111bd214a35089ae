"""Fingerprints of a step's data and gradients, and samples of weights, by which two runs are compared."""

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


_GOLDEN = 0.6180339887498949
"""Multiples of it, modulo 1, never repeat: every place within a sample has a weight of its own."""

_BUCKETS = 1 << 20

_NAN, _INFINITY, _NEGATIVE_INFINITY = 5.0990195135927845, 7.280109889280518, 9.433981132056603
"""Stand-ins in a sum for the values that would swallow all others."""


class StepFingerprints:
    """Two sums over a step, one of its data and one of its gradients, in variables of the strategy.

    Make it under the strategy, on every worker, before the first step.

    Args:
        strategy: The process's strategy.
    """

    def __init__(self, strategy: tf.distribute.Strategy) -> None:
        def variable(aggregation: tf.VariableAggregation) -> tf.Variable:
            return tf.Variable(
                0.0,
                trainable=False,
                dtype=tf.float64,
                # A check of a step leaves out what tfdist notes of it.
                name="tfdist_fingerprint",
                synchronization=tf.VariableSynchronization.ON_READ,
                aggregation=aggregation,
            )

        with strategy.scope():
            # Every replica holds the whole gradient, and its own part of the data.
            self._squares = variable(tf.VariableAggregation.ONLY_FIRST_REPLICA)
            self._data = variable(tf.VariableAggregation.SUM)

    def on_gradients(self, gradients: Sequence[tf.Tensor | tf.IndexedSlices | None]) -> None:
        """Notes the gradients of the global batch; in the context of a replica, while its step is traced."""
        # Dense: the norm of slices is not that of their sum where an index comes twice.
        dense = [tf.convert_to_tensor(gradient) for gradient in gradients if gradient is not None]
        for gradient in dense:
            self._squares.assign_add(tf.reduce_sum(tf.square(tf.cast(gradient, tf.float64))))

    def on_batch(self, batch: Any) -> None:
        """Notes a replica's data; in its context, while its step is traced."""
        self._data.assign_add(fingerprint(batch))

    def reset(self) -> None:
        """Resets both sums; call it outside of the replicas, on every worker."""
        self._squares.assign(0.0)
        self._data.assign(0.0)

    def read(self) -> tuple[float, float]:
        """The gradients' norm and the data's fingerprint; call it outside of the replicas, on every worker."""
        return float(self._squares.read_value()) ** 0.5, float(self._data.read_value())


def fingerprint(batch: Any) -> tf.Tensor:
    """A float64 scalar, not negative, that two different batches are unlikely to share.

    It is a sum over the samples, so that the parts of a global batch add up to its own, in whatever order they come.
    Within a sample every place has another weight, so that a mirrored image or another class changes the sum.

    Args:
        batch: A structure of tensors, dense, ragged or sparse, of numbers or strings; what has no rows is left out.
    """
    leaves = [
        leaf for leaf in tf.nest.flatten(batch) if isinstance(leaf, tf.Tensor | tf.RaggedTensor | tf.SparseTensor)
    ]
    terms = [_term(leaf) for leaf in leaves if leaf.shape.rank != 0]
    return tf.add_n(terms) if terms else tf.constant(0.0, tf.float64)


def _term(leaf: Any) -> tf.Tensor:
    if isinstance(leaf, tf.RaggedTensor):
        return tf.reduce_sum(_magnitude(leaf.flat_values))
    if isinstance(leaf, tf.SparseTensor):
        return tf.reduce_sum(_magnitude(leaf.values))
    # The size of a sample from its shape: of an empty batch, -1 cannot be inferred.
    columns = tf.reduce_prod(tf.shape(leaf, out_type=tf.int64)[1:])
    rows = tf.reshape(_magnitude(leaf), [tf.shape(leaf, out_type=tf.int64)[0], columns])
    places = tf.math.floormod(tf.cast(tf.range(columns), tf.float64) * _GOLDEN, 1.0)
    return tf.reduce_sum(rows * (1.0 + places))


def _magnitude(values: tf.Tensor) -> tf.Tensor:
    """Positive where there is anything, so that sums never cancel, and other for -x than for x."""
    if values.dtype == tf.string:
        return tf.cast(tf.strings.to_hash_bucket_fast(values, _BUCKETS), tf.float64)
    numbers = tf.cast(tf.abs(values) if values.dtype.is_complex else values, tf.float64)
    odd = tf.where(tf.math.is_nan(numbers), _NAN, tf.where(numbers > 0, _INFINITY, _NEGATIVE_INFINITY))
    return tf.where(tf.math.is_finite(numbers), tf.abs(numbers) + tf.nn.relu(numbers), tf.cast(odd, tf.float64))
