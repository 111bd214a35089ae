"""Sums over the replicas, inside of a replica's step: the one way that losses and gradients take."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

from tfdist.runtime.step_meter import meter_of
from tfdist.runtime.transport.ring_all_reduce import Ring

_ATTRIBUTE = "_tfdist_ring"
_COMPRESSION = "_tfdist_compression"


def use_ring(strategy: tf.distribute.Strategy, ring: Ring) -> None:
    """Makes the sums of `strategy` run over `ring`; without one they take TensorFlow's own path."""
    setattr(strategy, _ATTRIBUTE, ring)


def ring_of(strategy: tf.distribute.Strategy) -> Ring | None:
    """What `use_ring` was given."""
    return getattr(strategy, _ATTRIBUTE, None)


def sum_over_replicas(tensors: Sequence[tf.Tensor | tf.IndexedSlices]) -> list[tf.Tensor | tf.IndexedSlices]:
    """The sum of each tensor over all replicas. Call it in the context of a replica, on all of them.

    Sparse tensors stay sparse.
    """
    context = tf.distribute.get_replica_context()
    ring = ring_of(context.strategy)
    dense: list[int] = []
    result: list[tf.Tensor | tf.IndexedSlices] = list(tensors)
    if ring is not None and not tf.executing_eagerly():
        dense = [i for i, tensor in enumerate(tensors) if isinstance(tensor, tf.Tensor)]
        for i, total in zip(dense, ring.sum([tensors[i] for i in dense]) if dense else (), strict=True):
            result[i] = total
    rest = [i for i in range(len(tensors)) if i not in set(dense)]
    if rest:
        totals = context.all_reduce(tf.distribute.ReduceOp.SUM, [_on_device(tensors[i]) for i in rest])
        for i, total in zip(rest, totals, strict=True):
            result[i] = total
    return result


def use_compression(strategy: tf.distribute.Strategy, dtype: tf.DType) -> None:
    """Makes the gradients of `strategy` travel as `dtype`, bfloat16 or float16.

    Each replica's gradient is rounded, by at most 1 part in 256 (bfloat16) or 2048 (float16, between 6e-5 and 65504:
    below it loses more, above it becomes infinite), and so is each partial sum on the way.
    """
    setattr(strategy, _COMPRESSION, dtype)


def compression() -> tf.DType | None:
    """What gradients travel as under the current strategy; None for what they are."""
    return getattr(tf.distribute.get_strategy(), _COMPRESSION, None)


def sum_gradients(gradients: Sequence[tf.Tensor | tf.IndexedSlices]) -> list[tf.Tensor | tf.IndexedSlices]:
    """`sum_over_replicas`, compressed where that was asked for; gradients keep their dtype."""
    dtype = compression()
    if dtype is None:
        return _timed_sum(gradients)
    return [
        _as(gradient.dtype, total)
        for gradient, total in zip(gradients, _timed_sum([_as(dtype, g) for g in gradients]), strict=True)
    ]


def _timed_sum(tensors: Sequence[tf.Tensor | tf.IndexedSlices]) -> list[tf.Tensor | tf.IndexedSlices]:
    """`sum_over_replicas`, on the worker's meter where it runs over a ring, and so on the CPU."""
    strategy = tf.distribute.get_strategy()
    meter = meter_of(strategy)
    if meter is None or getattr(strategy, _ATTRIBUTE, None) is None or not tensors:
        return sum_over_replicas(tensors)
    return list(meter.timed(tensors, sum_over_replicas))


def _as(dtype: tf.DType, tensor: tf.Tensor | tf.IndexedSlices) -> tf.Tensor | tf.IndexedSlices:
    if isinstance(tensor, tf.IndexedSlices):
        return tf.IndexedSlices(tf.cast(tensor.values, dtype), tensor.indices, tensor.dense_shape)
    return tf.cast(tensor, dtype)


def _on_device(tensor: tf.Tensor | tf.IndexedSlices) -> tf.Tensor | tf.IndexedSlices:
    """On the CPU an argument of a tf.function has no device yet, which all_reduce does not take; a product has."""
    return tensor * tf.ones((), tensor.dtype) if isinstance(tensor, tf.Tensor) else tensor
