"""Repair of synchronised batch statistics of masked inputs, which Keras silently takes on each replica alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf
from keras import ops

from tfdist.keras_repairs.base.replica_step import is_one_of_several

Function = Callable[..., Any]


def moments(original: Function) -> Function:
    """Repairs `BatchNormalization._moments`: with a mask, sums and counts are those of the global batch."""

    def repaired(self: Any, inputs: Any, mask: Any) -> tuple[tf.Tensor, tf.Tensor]:
        if mask is None or not self.synchronized or not is_one_of_several():
            return original(self, inputs, mask)
        valid = ops.broadcast_to(ops.expand_dims(ops.cast(mask, "bool"), -1), ops.shape(inputs))
        count = _sum(ops.cast(valid, inputs.dtype), self._reduction_axes) + keras.config.epsilon()
        mean = _sum(ops.where(valid, inputs, 0), self._reduction_axes) / count
        spread = _sum(ops.square(ops.where(valid, inputs - mean, 0)), self._reduction_axes)
        return ops.squeeze(mean), ops.squeeze(spread / count)

    return repaired


def _sum(values: tf.Tensor, axes: Any) -> tf.Tensor:
    """Sums along `axes` and over the replicas; a gradient goes back to all replicas, as the statistics are theirs."""
    own = ops.sum(values, axes, keepdims=True)
    return tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, own)
