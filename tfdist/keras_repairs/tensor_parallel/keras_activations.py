"""Repairs of Keras's activations that are several operations in TensorFlow: on CPUs XLA makes one of them, for slices.

Each of those would read and write all features of all rows. For the backward pass only the features are kept.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import tensorflow as tf
from tensorflow.python.framework import op_callbacks

from tfdist.keras_repairs.recomputation import RECOMPUTATION_SCOPE
from tfdist.keras_repairs.tensor_parallel.keras_products import keeping_attributes
from tfdist.keras_repairs.tensor_parallel.rule_results import rows_like
from tfdist.keras_repairs.tensor_parallel.sliced_tensors import SlicedRows, sliced_of, standing_for
from tfdist.runtime.strategy_settings import settings_of

Function = Callable[..., Any]


def gelu(original: Function) -> Function:
    """Repairs `keras.ops.gelu`."""

    def repaired(x: Any, approximate: bool = True) -> Any:
        found = _compilable(x)
        return original(x, approximate) if found is None else _of_slice(_compiled_gelu(bool(approximate)), found)

    return keeping_attributes(original, repaired)


def silu(original: Function) -> Function:
    """Repairs `keras.ops.silu`, which is one operation with a gradient of its own: of slices it is two."""

    def repaired(x: Any) -> Any:
        found = _compilable(x)
        if found is not None:
            return _of_slice(_compiled_silu(), found)
        return _silu(x) if isinstance(x, tf.Tensor) and sliced_of(x) is not None else original(x)

    return keeping_attributes(original, repaired)


def _compilable(x: Any) -> SlicedRows | None:
    """A slice of rows that XLA is to compute with.

    Of half precision it would round less often than one device. What is computed again in the backward pass is copied
    operation by operation, and a debugger looks at each of them.
    """
    found = sliced_of(x) if isinstance(x, tf.Tensor) else None
    if not isinstance(found, SlicedRows) or found.slice.dtype not in (tf.float32, tf.float64):
        return None
    is_watched = RECOMPUTATION_SCOPE.get().is_inside or op_callbacks.should_invoke_op_callbacks()
    return None if is_watched or settings_of(tf.distribute.get_strategy()).on_gpus else found


def _of_slice(compute: Function, found: SlicedRows) -> tf.Tensor:
    result = rows_like(found, compute(found.slice))
    return standing_for(result, result.shape)


@functools.cache
def _compiled_gelu(approximate: bool) -> Function:
    return _compiled(functools.partial(tf.nn.gelu, approximate=approximate))


@functools.cache
def _compiled_silu() -> Function:
    return _compiled(_silu)


def _silu(x: tf.Tensor) -> tf.Tensor:
    return x * tf.sigmoid(x)


def _compiled(compute: Function) -> Function:
    """The function, and a gradient that begins with its input again, each compiled as a whole."""

    @tf.function(jit_compile=True, autograph=False)
    def forward(x: tf.Tensor) -> tf.Tensor:
        return compute(x)

    @tf.function(jit_compile=True, autograph=False)
    def backward(x: tf.Tensor, upstream: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            tape.watch(x)
            result = compute(x)
        return tape.gradient(result, x, upstream)

    @tf.custom_gradient
    def activation(x: tf.Tensor) -> tuple[tf.Tensor, Function]:
        return _in_few_sizes(forward, x), lambda upstream: _in_few_sizes(backward, x, upstream)

    return activation


def _in_few_sizes(compute: Function, *tensors: tf.Tensor) -> tf.Tensor:
    """Calls a compiled function that works element by element, with tensors of one shape.

    XLA compiles anew for each size. So the function is given vectors of few sizes, filled up with zeros: four between a
    power of two and the next.
    """
    first = tensors[0]
    if first.shape.is_fully_defined():
        return compute(*tensors)
    size = tf.size(first, tf.int64)
    unit = tf.bitwise.left_shift(tf.constant(1, tf.int64), _power_below((size - 1) // 4))
    beyond = tf.math.floormod(-size, unit)
    flat = [tf.reshape(tensor, [-1]) for tensor in tensors]
    filled = tf.cond(beyond > 0, lambda: [tf.pad(each, [[0, beyond]]) for each in flat], lambda: flat)
    result = tf.reshape(compute(*filled)[:size], tf.shape(first))
    return tf.ensure_shape(result, first.shape)


def _power_below(number: tf.Tensor) -> tf.Tensor:
    """The exponent of the largest power of two that is not above a number; 0 for those below 1."""
    return tf.reduce_sum(tf.cast(number >= _POWERS, tf.int64))


_POWERS = [1 << exponent for exponent in range(1, 62)]
