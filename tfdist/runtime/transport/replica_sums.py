"""Sums over the replicas inside of a replica's step, for all losses and gradients."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

from tfdist.runtime.strategy_settings import settings_of
from tfdist.runtime.transport.emulated_replicas import emulated_replica


def sum_over_replicas(tensors: Sequence[tf.Tensor | tf.IndexedSlices]) -> list[tf.Tensor | tf.IndexedSlices]:
    """The sum of each tensor over all replicas. Call it in the context of a replica, on all of them.

    Sparse tensors stay sparse.
    """
    emulated = emulated_replica()
    if emulated is not None:
        return emulated.summed(tensors)
    context = tf.distribute.get_replica_context()
    ring = settings_of(context.strategy).ring
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


def compression() -> tf.DType | None:
    """The dtype in which gradients are sent under the current strategy; None for their own."""
    return settings_of(tf.distribute.get_strategy()).compression


def sum_gradients(gradients: Sequence[tf.Tensor | tf.IndexedSlices]) -> list[tf.Tensor | tf.IndexedSlices]:
    """`sum_over_replicas`, compressed where that was asked for; gradients keep their dtype.

    Compression rounds each replica's gradient, by at most 1 part in 256 (bfloat16) or 2048 (float16, between 6e-5 and
    65504: below it loses more, above it becomes infinite), and so each partial sum on the way.
    """
    dtype = compression()
    if dtype is None:
        return _timed_sum(gradients)
    return [
        _as(gradient.dtype, total)
        for gradient, total in zip(gradients, _timed_sum([_as(dtype, g) for g in gradients]), strict=True)
    ]


def _timed_sum(tensors: Sequence[tf.Tensor | tf.IndexedSlices]) -> list[tf.Tensor | tf.IndexedSlices]:
    """`sum_over_replicas`, timed by the worker's meter where it runs over a ring, which is on the CPU."""
    settings = settings_of(tf.distribute.get_strategy())
    if settings.meter is None or settings.ring is None or not tensors:
        return sum_over_replicas(tensors)
    return list(settings.meter.timed(tensors, sum_over_replicas))


def _as(dtype: tf.DType, tensor: tf.Tensor | tf.IndexedSlices) -> tf.Tensor | tf.IndexedSlices:
    if isinstance(tensor, tf.IndexedSlices):
        return tf.IndexedSlices(tf.cast(tensor.values, dtype), tensor.indices, tensor.dense_shape)
    return tf.cast(tensor, dtype)


def _on_device(tensor: tf.Tensor | tf.IndexedSlices) -> tf.Tensor | tf.IndexedSlices:
    """On the CPU an argument of a tf.function has no device yet, which all_reduce does not take; its copy has."""
    return tf.identity(tensor) if isinstance(tensor, tf.Tensor) else tensor
