"""Operations that a replica without a sample gets wrong results from, in a batch smaller than the replicas are many."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from tfdist.keras_repairs.replicas import is_one_of_several

Function = Callable[..., Any]


def compute_moments(original: Function) -> Function:
    """Repairs `keras.src.backend.tensorflow.nn._compute_moments`: no NaN from an empty piece of a tail batch.

    The mean over no sample is NaN, and one NaN in a moving average stays for ever. (Synchronised statistics are taken
    over the global batch by Keras itself, with the samples counted, and need no repair.)
    """

    def repaired(x: Any, axes: Any, keepdims: bool) -> tuple[tf.Tensor, tf.Tensor]:
        mean, variance = original(x, axes, keepdims)
        if not is_one_of_several():
            return mean, variance
        filled = tf.size(x) > 0
        return tf.where(filled, mean, tf.zeros_like(mean)), tf.where(filled, variance, tf.zeros_like(variance))

    return repaired


def spatial(original: Function) -> Function:
    """Repairs Keras's `conv` and its kin, `conv_transpose`, `max_pool` and `adaptive_max_pool` on the CPU.

    Of no sample TensorFlow's oneDNN kernels return the input's shape, and the layers behind fail or go on with it; the
    gradient of a transposed convolution has a wrong shape, that of a maximum ends the process. The right shape is that
    of one sample's result.
    """

    def repaired(inputs: Any, *args: Any, **kwargs: Any) -> tf.Tensor:
        if not is_one_of_several() or inputs.shape[0] is not None:
            return original(inputs, *args, **kwargs)

        def of_none() -> tf.Tensor:
            one = tf.zeros(tf.concat([[1], tf.shape(inputs)[1:]], 0), inputs.dtype)
            return original(tf.ensure_shape(one, [1, *inputs.shape[1:]]), *args, **kwargs)[:0]

        return tf.cond(tf.shape(inputs)[0] > 0, lambda: original(inputs, *args, **kwargs), of_none)

    return repaired
