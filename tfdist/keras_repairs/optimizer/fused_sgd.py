"""Updates of SGD in one pass over memory, by TensorFlow's kernels for Keras's formulas.

Keras writes an update as a dozen operations, each of which reads and writes arrays of the model's size. On the CPU that
is a good part of a large model's step. (TensorFlow's kernel for Adam takes 1 - beta in the precision of the variable,
which in float32 is off by 1e-5 from Keras's: too far from one replica's numbers.)
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


def _as_variable(value: Any) -> contextlib.AbstractContextManager[Any]:
    return value.as_variable() if isinstance(value, DiskTensor) else contextlib.nullcontext(value)


def _is_fit(gradient: Any, target: Any) -> bool:
    """Whether the kernels take them; sparse gradients and those of another precision are left to Keras."""
    return isinstance(gradient, tf.Tensor) and gradient.dtype == target.dtype
