"""Repairs of operations that give wrong results on no sample, which a replica gets of a batch smaller than replicas."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf
from keras.src.backend.tensorflow import numpy as tensorflow_numpy

from tfdist.keras_repairs.base.replica_step import current_step, is_one_of_several

Function = Callable[..., Any]


def compute_moments(original: Function) -> Function:
    """Repairs `keras.src.backend.tensorflow.nn._compute_moments`: no NaN from an empty piece of a tail batch.

    The mean over no sample is NaN, and a NaN in a moving average stays there. (Synchronised statistics are taken
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

    Given no sample, TensorFlow's oneDNN kernels return the input's shape, and the layers after them fail or continue
    with it; the gradient of a transposed convolution has a wrong shape, that of a maximum ends the process. The right
    shape is that of one sample's result. XLA's own kernels are right, and XLA compiles no such choice.
    """

    def repaired(inputs: Any, *args: Any, **kwargs: Any) -> tf.Tensor:
        samples, step = inputs.shape[0], current_step()
        if samples or not is_one_of_several() or (step is not None and step.within_xla):
            return original(inputs, *args, **kwargs)

        def of_none() -> tf.Tensor:
            # Made of the inputs, too: synchronised layers before this one meet again in their gradients.
            one = tf.concat([inputs, tf.zeros(tf.concat([[1], tf.shape(inputs)[1:]], 0), inputs.dtype)], 0)
            return original(tf.ensure_shape(one, [1, *inputs.shape[1:]]), *args, **kwargs)[:0]

        if samples == 0:
            return of_none()
        return tf.cond(tf.shape(inputs)[0] > 0, lambda: original(inputs, *args, **kwargs), of_none)

    return repaired


def add(original: Function) -> Function:
    """Repairs `keras.src.backend.tensorflow.numpy.add` of no sample, which a step that runs eagerly may have.

    Keras drops dimensions below two to find out what is a bias, and takes a tensor of no rows for one. The difference
    of two empty tensors is as empty as their sum.
    """

    def repaired(x1: Any, x2: Any) -> tf.Tensor:
        if is_one_of_several() and _is_known_to_be_empty(x2):
            return tensorflow_numpy.subtract(x1, x2)
        return original(x1, x2)

    return repaired


def extreme(original: Function) -> Function:
    """Repairs `keras.src.backend.tensorflow.numpy.max` and `min` of no sample, which Keras refuses eagerly alone."""

    def repaired(x: Any, axis: Any = None, keepdims: bool = False, initial: Any = None) -> tf.Tensor:
        if is_one_of_several() and tf.executing_eagerly() and _is_known_to_be_empty(x):
            in_graph = tf.function(lambda tensor: original(tensor, axis, keepdims, initial), autograph=False)
            return in_graph(tf.convert_to_tensor(x))
        return original(x, axis=axis, keepdims=keepdims, initial=initial)

    return repaired


def _is_known_to_be_empty(x: Any) -> bool:
    shape = tf.TensorShape(getattr(x, "shape", ()))
    return shape.rank is not None and 0 in shape.as_list()
