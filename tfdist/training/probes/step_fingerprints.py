"""Fingerprints of a training step's data and gradients: one number each, read when the step is over."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

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
