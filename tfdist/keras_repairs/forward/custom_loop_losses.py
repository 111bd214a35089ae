"""Repairs of what TensorFlow's guide to own loops divides losses by: averages, and the number of replicas.

What `tf.nn.compute_average_loss` and `tf.nn.scale_regularization_loss` return is a replica's summand: the replicas'
losses, and their gradients, are added up. In a `train_step` of a model, where scalars are taken for means over the
samples, they are those of one device; and so is the number of replicas, which is 1 there.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from tfdist.keras_repairs.base.replica_step import (
    current_step,
    global_batch_step,
    is_alone,
    is_of_own_loop,
    is_one_of_several,
)
from tfdist.keras_repairs.coupling.declaring import summed
from tfdist.keras_repairs.forward.loss_reduction import is_within_loss
from tfdist.runtime.transport import replica_sums

Function = Callable[..., Any]

_LIBRARIES = ("tensorflow.", "keras.src.", "tfdist.")
"""Who reads how many replicas there are to compute with all of them."""


def compute_average_loss(original: Function) -> Function:
    """Repairs `tf.nn.compute_average_loss`: the average is taken over the samples that the global batch has.

    TensorFlow multiplies the replica's own samples by the number of replicas, which is the size of the global batch
    only where all replicas have equally many.
    """

    def repaired(per_example_loss: Any, sample_weight: Any = None, global_batch_size: Any = None) -> tf.Tensor:
        if global_batch_step() is not None and global_batch_size is None:
            global_batch_size = tf.shape(per_example_loss, out_type=tf.int64)[0]
        if not is_one_of_several():
            return original(per_example_loss, sample_weight, global_batch_size)
        in_step = current_step() is not None
        if global_batch_size is not None:
            loss = original(per_example_loss, sample_weight, global_batch_size)
            return summed(loss) if in_step and not is_within_loss() else loss
        samples = tf.shape(per_example_loss, out_type=tf.int64)[0]
        if not in_step:
            (samples,) = replica_sums.sum_over_replicas([samples])
        return original(per_example_loss, sample_weight, samples)

    return repaired


def scale_regularization_loss(original: Function) -> Function:
    """Repairs `tf.nn.scale_regularization_loss`: in a step of a model nothing is divided by the replicas."""

    def repaired(regularization_loss: Any) -> tf.Tensor:
        if global_batch_step() is not None or (is_one_of_several() and current_step() is not None):
            return tf.reduce_sum(regularization_loss)
        return original(regularization_loss)

    return repaired


def num_replicas_in_sync(original: Function) -> Function:
    """Repairs `tf.distribute.Strategy.num_replicas_in_sync`, and a replica context's: 1 for code of a model's step.

    A step that divides its loss by the number of replicas, as scripts for a MirroredStrategy do, divides by 1 on one
    device. In a loop of one's own, and outside of steps, it is the number that it is.
    """
    def repaired(self: Any) -> int:
        if (current_step() is not None or is_alone()) and not is_of_own_loop():
            reader = sys._getframe(1).f_globals.get("__name__", "")
            if not reader.startswith(_LIBRARIES):
                return 1
        count: int = original(self)
        return count

    return repaired
