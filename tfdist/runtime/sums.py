"""Sums over the replicas, inside of a replica's step: the one way that losses and gradients take."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

from tfdist.runtime.ring import Ring

_ATTRIBUTE = "_tfdist_ring"


def use_ring(strategy: tf.distribute.Strategy, ring: Ring) -> None:
    """Makes the sums of `strategy` run over `ring`; without one they take TensorFlow's own path."""
    setattr(strategy, _ATTRIBUTE, ring)


def sum_over_replicas(tensors: Sequence[tf.Tensor | tf.IndexedSlices]) -> list[tf.Tensor | tf.IndexedSlices]:
    """The sum of each tensor over all replicas. Call it in the context of a replica, on all of them.

    Sparse tensors stay sparse.
    """
    context = tf.distribute.get_replica_context()
    ring: Ring | None = getattr(context.strategy, _ATTRIBUTE, None)
    dense = [i for i, tensor in enumerate(tensors) if isinstance(tensor, tf.Tensor)]
    if ring is None or tf.executing_eagerly():
        dense = []
    result: list[tf.Tensor | tf.IndexedSlices] = list(tensors)
    for i, total in zip(dense, ring.sum([tensors[i] for i in dense]) if dense else (), strict=True):
        result[i] = total
    rest = [i for i in range(len(tensors)) if i not in set(dense)]
    if rest:
        totals = context.all_reduce(tf.distribute.ReduceOp.SUM, [_on_device(tensors[i]) for i in rest])
        for i, total in zip(rest, totals, strict=True):
            result[i] = total
    return result


def _on_device(tensor: tf.Tensor | tf.IndexedSlices) -> tf.Tensor | tf.IndexedSlices:
    """On the CPU an argument of a tf.function has no device yet, which all_reduce does not take; a product has."""
    return tensor * tf.ones((), tensor.dtype) if isinstance(tensor, tf.Tensor) else tensor
