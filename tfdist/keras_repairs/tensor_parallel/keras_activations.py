"""Repairs of Keras's activations that are several operations in TensorFlow: of slices XLA makes one of them on CPUs.

Each of them would read and write all features of all rows. Backwards only the features are kept.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import tensorflow as tf

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
    """A slice of rows that XLA is to compute with. XLA compiles anew for each shape: for one where more than the rows
    is open it would do so again and again. Of half precision it rounds less often than one device."""
    found = sliced_of(x) if isinstance(x, tf.Tensor) else None
    if not isinstance(found, SlicedRows) or settings_of(tf.distribute.get_strategy()).on_gpus:
        return None
    own = found.slice
    return found if own.shape[1:].is_fully_defined() and own.dtype in (tf.float32, tf.float64) else None


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
    def backward(x: tf.Tensor, upstream: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            tape.watch(x)
            result = compute(x)
        return tape.gradient(result, x, upstream)

    @tf.function(jit_compile=True, autograph=False)
    def forward(x: tf.Tensor) -> tf.Tensor:
        return compute(x)

    @tf.custom_gradient
    def activation(x: tf.Tensor) -> tuple[tf.Tensor, Function]:
        return forward(x), lambda upstream: backward(x, upstream)

    return activation
