"""Batch statistics on a replica that has no sample."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from tfdist.keras_repairs.replicas import current_step

Function = Callable[..., Any]


def compute_moments(original: Function) -> Function:
    """Repairs `keras.src.backend.tensorflow.nn._compute_moments`: no NaN from an empty piece of a tail batch.

    The mean over no sample is NaN, and one NaN in a moving average stays for ever. (Synchronised statistics are taken
    over the global batch by Keras itself, with the samples counted, and need no repair.)
    """

    def repaired(x: Any, axes: Any, keepdims: bool) -> tuple[tf.Tensor, tf.Tensor]:
        mean, variance = original(x, axes, keepdims)
        if current_step() is None:
            return mean, variance
        filled = tf.size(x) > 0
        return tf.where(filled, mean, tf.zeros_like(mean)), tf.where(filled, variance, tf.zeros_like(variance))

    return repaired
