"""Repair of the labels of hinge losses and metrics, which Keras converts when all of the batch are 0 or 1."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from tfdist.keras_repairs.base.replica_step import current_step, is_one_of_several, sum_over_replicas

Function = Callable[..., Any]


def convert_binary_labels(original: Function) -> Function:
    """Repairs `keras.src.losses.losses.convert_binary_labels_to_hinge`: a replica asks the labels of all replicas.

    One that holds no other labels than 0 and 1, of some that others hold, would make -1 of its zeros.
    """

    def repaired(y_true: Any) -> tf.Tensor:
        if not is_one_of_several():
            return original(y_true)
        labels = tf.convert_to_tensor(y_true)
        others = tf.math.count_nonzero((labels != 0) & (labels != 1), dtype=tf.int32)
        step = current_step()
        # The row of a replica without samples has a label, too, which counts nowhere.
        others = others if step is None else step.share.of_samples(others)
        return tf.where(sum_over_replicas(others) == 0, 2 * labels - 1, labels)

    return repaired
