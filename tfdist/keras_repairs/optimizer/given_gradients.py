"""Gradients that a script gives to an optimizer outside of the replicas: they are one, and every copy takes them.

Such as those that an evolution strategy computes with NumPy, those of a loop without `strategy.run`, and those that a
script has reduced itself. Keras would look for a replica's context, which is not there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf
from tensorflow.python.distribute.values import PerReplica

from tfdist.keras_repairs.base.replica_copies import is_first_replica
from tfdist.keras_repairs.sharding.shards import shard_of

Gradient = Any
"""A value that TensorFlow makes a tensor of, a tensor, slices, one of these for each replica, or None."""


def apply(apply_on_replica: Callable[..., None], optimizer: Any, grads: Sequence[Gradient], variables: Any) -> None:
    """Applies gradients from outside of the replicas. All workers call it together.

    The first replica has them and the others nothing, so that the sum over the replicas, which the optimizer takes, is
    what was given. Workers that were given others, by rounding or by chance, so keep the same weights nevertheless.

    Args:
        apply_on_replica: `Optimizer.apply` as it is repaired for the context of a replica.
        optimizer: Whose step it is, built or not.
        grads: One a variable. Those with a value of its own for each replica, as `strategy.run` returns, are summed.
        variables: The model's; None for those that the optimizer was built with.
    """
    grads = list(grads)
    chosen = list(optimizer._trainable_variables if variables is None else variables)
    is_summed = [_has_one_a_replica(gradient) for gradient in grads]

    def on_replica(own: Sequence[Gradient]) -> None:
        parts = [_part(*each) for each in zip(own, is_summed, strict=True)]
        for part, variable in zip(parts, chosen, strict=True):
            shard = None if part is None else shard_of(variable)
            if shard is not None:
                shard.keep_full(part)
        apply_on_replica(optimizer, parts, None if variables is None else chosen)

    tf.distribute.get_strategy().extended.call_for_each_replica(on_replica, args=(grads,))


def _has_one_a_replica(gradient: Gradient) -> bool:
    values = gradient.values if isinstance(gradient, tf.IndexedSlices) else gradient
    return isinstance(values, PerReplica)


def _part(gradient: Gradient, is_summed: bool) -> tf.Tensor | tf.IndexedSlices | None:
    """Returns what a replica has of a gradient."""
    if gradient is None:
        return None
    value = _slices(gradient) if isinstance(gradient, tf.IndexedSlices) else tf.convert_to_tensor(gradient)
    if is_summed or is_first_replica():
        return value
    if isinstance(value, tf.IndexedSlices):
        # None of its rows: an optimizer may heed which have a slice, and how many.
        return tf.IndexedSlices(value.values[:0], value.indices[:0], value.dense_shape)
    return tf.zeros_like(value)


def _slices(gradient: tf.IndexedSlices) -> tf.IndexedSlices:
    """Slices of tensors, which TensorFlow also makes of arrays and tuples, and then cannot add up."""
    values, indices = tf.convert_to_tensor(gradient.values), tf.convert_to_tensor(gradient.indices)
    return tf.IndexedSlices(values, indices, gradient.dense_shape)
