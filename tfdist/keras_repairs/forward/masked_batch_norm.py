"""Repair of the batch statistics of masked inputs, and of those of a replica without samples."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf
from keras import ops

from tfdist.keras_repairs.base.replica_step import current_step, is_one_of_several

Function = Callable[..., Any]


def moments(original: Function) -> Function:
    """Repairs `BatchNormalization._moments`: with a mask, sums and counts are those of the global batch.

    Of its own statistics a replica without samples takes those that the layer has, which stay as they are.
    """

    def repaired(self: Any, inputs: Any, mask: Any) -> tuple[tf.Tensor, tf.Tensor]:
        step = current_step()
        if not is_one_of_several():
            return original(self, inputs, mask)
        if not self.synchronized:
            filled = tf.size(inputs) > 0 if step is None else step.samples > 0
            own = original(self, inputs, mask)
            kept = (ops.cast(variable, inputs.dtype) for variable in (self.moving_mean, self.moving_variance))
            return tuple(tf.where(filled, value, before) for value, before in zip(own, kept, strict=True))
        if mask is None:
            return original(self, inputs, mask)
        valid = ops.broadcast_to(ops.expand_dims(ops.cast(mask, "bool"), -1), ops.shape(inputs))
        count = _sum(ops.cast(valid, inputs.dtype), self._reduction_axes) + keras.config.epsilon()
        mean = _sum(ops.where(valid, inputs, 0), self._reduction_axes) / count
        spread = _sum(ops.square(ops.where(valid, inputs - mean, 0)), self._reduction_axes)
        return ops.squeeze(mean), ops.squeeze(spread / count)

    return repaired


def compute_moments_sync(original: Function) -> Function:
    """Repairs `keras.src.backend.tensorflow.nn._compute_moments_sync`: a replica without samples adds nothing."""

    def repaired(x: Any, axes: Any, keepdims: bool) -> tuple[tf.Tensor, tf.Tensor]:
        if not is_one_of_several():
            return original(x, axes, keepdims)
        count = _sum(tf.ones_like(x), axes)
        mean = tf.math.divide_no_nan(_sum(x, axes), count)
        variance = tf.maximum(tf.math.divide_no_nan(_sum(tf.square(x), axes), count) - tf.square(mean), 0.0)
        return (mean, variance) if keepdims else (tf.squeeze(mean, axes), tf.squeeze(variance, axes))

    return repaired


def _sum(values: tf.Tensor, axes: Any) -> tf.Tensor:
    """Sums along `axes` and over the replicas; a gradient goes back to all replicas, as the statistics are theirs."""
    own, step = ops.sum(values, axes, keepdims=True), current_step()
    if step is not None:
        own = step.of_samples(own)
    total = tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, own)
    return total if step is None else step.with_gradient_of_samples(total)
