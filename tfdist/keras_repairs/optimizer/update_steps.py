"""Update steps that compute Keras's numbers with less work: in one pass over memory, or of the rows of a batch alone.

Keras writes an update as a dozen operations, each of which reads and writes arrays of the model's size. On the CPU that
is a good part of a large model's step. (TensorFlow's kernel for Adam takes 1 - beta in the precision of the variable,
which in float32 is off by 1e-5 from Keras's: too far from one replica's numbers.) Keras's Adagrad computes with its
whole state in each step, and changes some rows where a gradient is sparse.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from tfdist.keras_repairs.base.replica_copies import is_of_this_replica, own_copy
from tfdist.keras_repairs.base.replica_step import is_one_of_several
from tfdist.runtime.offload.disk_tensor import DiskTensor

Function = Callable[..., Any]


def sgd(original: Function) -> Function:
    """Repairs `SGD.update_step`, with and without momentum (Sutskever et al., 2013, for Nesterov's)."""

    def repaired(self: Any, gradient: Any, variable: Any, learning_rate: Any) -> None:
        # One replica computes as Keras does, also where its optimizer is offloaded.
        target = own_copy(variable) if is_of_this_replica() and is_one_of_several() else None
        if target is None or not _is_fit(gradient, target):
            original(self, gradient, variable, learning_rate)
            return
        rate = tf.cast(learning_rate, target.dtype)
        if not self.momentum:
            tf.raw_ops.ResourceApplyGradientDescent(var=target.handle, alpha=rate, delta=gradient)
            return
        with _as_variable(own_copy(self.momentums[self._get_variable_index(variable)])) as momentum:
            tf.raw_ops.ResourceApplyKerasMomentum(
                var=target.handle,
                accum=momentum.handle,
                lr=rate,
                grad=gradient,
                momentum=tf.cast(self.momentum, target.dtype),
                use_nesterov=self.nesterov,
            )

    return repaired


def adagrad(original: Function) -> Function:
    """Repairs `Adagrad.update_step` (Duchi et al., 2011) for sparse gradients of several replicas."""

    def repaired(self: Any, gradient: Any, variable: Any, learning_rate: Any) -> None:
        if not is_of_this_replica() or not isinstance(gradient, tf.IndexedSlices):
            original(self, gradient, variable, learning_rate)
            return
        target = own_copy(variable)
        sums = own_copy(self._accumulators[self._get_variable_index(variable)])
        values, rows = tf.cast(gradient.values, target.dtype), gradient.indices
        # A row that comes twice counts each slice's square, as with Keras.
        sums.scatter_add(tf.IndexedSlices(tf.square(values), rows))
        rate, epsilon = (tf.constant(number, target.dtype) if isinstance(number, float) else number
                         for number in (learning_rate, self.epsilon))  # fmt: skip
        steps = tf.cast(rate, target.dtype) * values / tf.sqrt(tf.gather(sums, rows) + epsilon)
        target.scatter_sub(tf.IndexedSlices(steps, rows))

    return repaired


def _as_variable(value: Any) -> contextlib.AbstractContextManager[Any]:
    return value.as_variable() if isinstance(value, DiskTensor) else contextlib.nullcontext(value)


def _is_fit(gradient: Any, target: Any) -> bool:
    """Returns whether the kernels take them; sparse gradients and those of another precision are left to Keras."""
    return isinstance(gradient, tf.Tensor) and gradient.dtype == target.dtype
