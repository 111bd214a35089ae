"""Convolutions, poolings and sums of replicas without a row, in loops of the user's.

There a replica may get no row of the last batch, as the script counts rows itself; in steps of models it gets a row of
zeros. Of no row oneDNN's convolutions have the wrong shape or fail in their gradients, and its gradients of max pooling
end the process. Keras takes an addend of no row for a bias.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf
from keras import ops

from tfdist.keras_repairs.base.replica_step import REPLICA_SCOPE, current_step, is_one_of_several
from tfdist.runtime.strategy_settings import settings_of

Function = Callable[..., Any]


def of_any_rows(original: Function) -> Function:
    """Repairs an operation of `gen_nn_ops` on an `input` of rows: where there is none it is that of a row of zeros, of
    whose result nothing is taken."""

    def repaired(input: Any, *args: Any, **options: Any) -> Any:
        if current_step() is not None or not is_one_of_several() or not _may_be_empty(input) or not _is_of_onednn():
            return original(input, *args, **options)
        has_rows = tf.shape(input)[0] > 0
        some = tf.cond(has_rows, lambda: input, lambda: _with_a_row(input))
        some = tf.ensure_shape(some, [None, *input.shape[1:]])
        result = original(some, *args, **options)
        return tf.cond(has_rows, lambda: result, lambda: result[:0])

    return repaired


def add(original: Function) -> Function:
    """Repairs `keras.ops.add`, which takes an addend of no row for a bias, of which only the channels count."""

    @functools.wraps(original)
    def repaired(x1: Any, x2: Any) -> Any:
        if not isinstance(x1, tf.Tensor) or not isinstance(x2, tf.Tensor) or 0 not in x2.shape:
            return original(x1, x2)
        dtype = keras.backend.result_type(x1.dtype, x2.dtype)
        return tf.add(ops.cast(x1, dtype), ops.cast(x2, dtype))

    return repaired


def _with_a_row(none: tf.Tensor) -> tf.Tensor:
    """A row of zeros, through which a gradient of no row flows: eagerly, too, all variables have one."""
    row = tf.zeros([1, *tf.unstack(tf.shape(none)[1:])], none.dtype)
    return tf.concat([none, row], axis=0)


def _may_be_empty(rows: Any) -> bool:
    return isinstance(rows, tf.Tensor) and rows.shape.rank is not None and rows.shape[0] in (None, 0)


def _is_of_onednn() -> bool:
    """Returns whether oneDNN may compute: not on GPUs, and not in a function that XLA compiles, which takes no row."""
    return not REPLICA_SCOPE.get().is_compiled_function and not settings_of(tf.distribute.get_strategy()).on_gpus
