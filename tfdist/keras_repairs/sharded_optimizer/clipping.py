"""Clipping of gradients by norms of which each worker has a part: squares are summed over the workers."""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import tensorflow as tf
from keras import ops

from tfdist.keras_repairs.base.context_variables import setting
from tfdist.keras_repairs.sharding.optimizer_policy import policy_of
from tfdist.runtime.transport.part_sums import sum_small

Function = Callable[..., Any]
Gradient: TypeAlias = tf.Tensor | tf.IndexedSlices


_is_part: contextvars.ContextVar[Sequence[bool]] = contextvars.ContextVar("tfdist_gradients_of_parts", default=())


def of_parts(is_part: Sequence[bool]) -> contextlib.AbstractContextManager[None]:
    """Says for each gradient that an optimizer updates with inside whether it is of a part, or every worker's."""
    return setting(_is_part, is_part)


def clip_gradients(original: Function) -> Function:
    """Repairs `BaseOptimizer._clip_gradients`."""

    def repaired(self: Any, grads: Sequence[Gradient]) -> Any:
        by_each, by_all = (bool(limit and limit > 0) for limit in (self.clipnorm, self.global_clipnorm))
        policy = policy_of(self) if by_each or by_all else None
        if policy is None or policy.workers == 1:
            return original(self, grads)
        if by_each:
            return _by_norm(grads, self.clipnorm)
        return _by_global_norm(grads, self.global_clipnorm)

    return repaired


def _by_norm(grads: Sequence[Gradient], most: float) -> list[Gradient]:
    """As `tf.clip_by_norm` does with whole gradients."""
    squares = tf.unstack(_squares(grads), len(grads))
    pairs = zip(grads, squares, strict=True)
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


def _by_global_norm(grads: Sequence[Gradient], most: float) -> list[Any]:
    """As Keras's `clip_by_global_norm` does with whole gradients."""
    norm = ops.sqrt(ops.sum(_squares(grads)))
    finite = most * ops.minimum(1.0 / norm, 1.0 / most)
    # An infinite norm makes everything NaN, as on one device.
    scale = finite + (norm - norm)
    return [gradient * scale for gradient in grads]


def _squares(grads: Sequence[Gradient]) -> tf.Tensor:
    """The squared norm of each whole gradient."""
    values = [gradient.values if isinstance(gradient, tf.IndexedSlices) else gradient for gradient in grads]
    squares = ops.stack([ops.sum(ops.square(value)) for value in values])
    is_part = tf.constant(list(_is_part.get()))
    return tf.where(is_part, sum_small(tf.where(is_part, squares, tf.zeros_like(squares))), squares)
