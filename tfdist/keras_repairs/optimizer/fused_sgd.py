"""Updates of SGD in one pass over memory, by TensorFlow's kernels for Keras's formulas.

Keras writes an update as a dozen operations, each of which reads and writes arrays of the model's size. On the CPU that
is a good part of a large model's step. (TensorFlow's kernel for Adam takes 1 - beta in the precision of the variable,
which in float32 is off by 1e-5 from Keras's: too far from one replica's numbers.)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from tfdist.keras_repairs.optimizer.variable_updates import is_of_this_replica, own_copy

Function = Callable[..., Any]


def sgd(original: Function) -> Function:
    """Repairs `SGD.update_step`, with and without momentum (Sutskever et al., 2013, for Nesterov's)."""

    def repaired(self: Any, gradient: Any, variable: Any, learning_rate: Any) -> None:
        target = own_copy(variable) if is_of_this_replica() else None
        if target is None or not _is_fit(gradient, target):
            original(self, gradient, variable, learning_rate)
            return
        rate = tf.cast(learning_rate, target.dtype)
        if not self.momentum:
            tf.raw_ops.ResourceApplyGradientDescent(var=target.handle, alpha=rate, delta=gradient)
            return
        tf.raw_ops.ResourceApplyKerasMomentum(
            var=target.handle,
            accum=own_copy(self.momentums[self._get_variable_index(variable)]).handle,
            lr=rate,
            grad=gradient,
            momentum=tf.cast(self.momentum, target.dtype),
            use_nesterov=self.nesterov,
        )

    return repaired


def _is_fit(gradient: Any, target: Any) -> bool:
    """Whether the kernels take them; sparse gradients and those of another precision are left to Keras."""
    return isinstance(gradient, tf.Tensor) and gradient.dtype == target.dtype
