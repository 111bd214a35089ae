"""Clipping of gradients by norms, also of those of which each worker has a shard: squares are summed over these."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import tensorflow as tf
from keras import ops

from tfdist.keras_repairs.sharding_policies.optimizer_policy import policy_of
from tfdist.keras_repairs.sharding_policies.variable_policy import VariablePolicy

Function = Callable[..., Any]
Gradient: TypeAlias = tf.Tensor | tf.IndexedSlices


def clip_gradients(original: Function) -> Function:
    """Repairs `BaseOptimizer._clip_gradients`."""

    def repaired(self: Any, grads: Sequence[Gradient]) -> Any:
        by_each, by_all = (bool(limit and limit > 0) for limit in (self.clipnorm, self.global_clipnorm))
        policy = policy_of(self) if by_each or by_all else None
        if policy is None or all(each.sum_over_shards is None for each in policy.present):
            return original(self, grads)
        squares = _squares(grads, policy.present)
        if by_each:
            return _by_norm(grads, squares, self.clipnorm)
        return _by_global_norm(grads, squares, self.global_clipnorm)

    return repaired


def _by_norm(grads: Sequence[Gradient], squares: tf.Tensor, most: float) -> list[Gradient]:
    """As `tf.clip_by_norm` does with full gradients."""
    pairs = zip(grads, tf.unstack(squares, len(grads)), strict=True)
    return [_clipped(gradient, tf.cast(square, gradient.dtype), most) for gradient, square in pairs]


def _clipped(gradient: Gradient, square: tf.Tensor, most: float) -> Gradient:
    is_some = square > 0
    norm = tf.where(is_some, tf.sqrt(tf.where(is_some, square, tf.ones_like(square))), square)

    def clipped(values: tf.Tensor) -> tf.Tensor:
        # By way of float32, as tf.cast goes, the limit would be another one in float64.
        return values * most / tf.maximum(norm, tf.constant(most, norm.dtype))

    if isinstance(gradient, tf.IndexedSlices):
        return tf.IndexedSlices(clipped(gradient.values), gradient.indices, gradient.dense_shape)
    return clipped(gradient)


def _by_global_norm(grads: Sequence[Gradient], squares: tf.Tensor, most: float) -> list[Any]:
    """As Keras's `clip_by_global_norm` does with full gradients."""
    norm = ops.sqrt(ops.sum(squares))
    finite = most * ops.minimum(1.0 / norm, 1.0 / most)
    # An infinite norm makes everything NaN, as on one device.
    scale = finite + (norm - norm)
    return [gradient * scale for gradient in grads]


def _squares(grads: Sequence[Gradient], policies: Sequence[VariablePolicy]) -> tf.Tensor:
    """The squared norm of each full gradient."""
    values = [gradient.values if isinstance(gradient, tf.IndexedSlices) else gradient for gradient in grads]
    squares = ops.stack([ops.sum(ops.square(value)) for value in values])
    sums = [policy.sum_over_shards for policy in policies]
    for sum_ in dict.fromkeys(sums):
        if sum_ is not None:
            is_shard = tf.constant([each == sum_ for each in sums])
            squares = tf.where(is_shard, sum_(tf.where(is_shard, squares, tf.zeros_like(squares))), squares)
    return squares
