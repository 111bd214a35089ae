"""The updates of SGD and Adam in one pass over memory each: TensorFlow's kernels for Keras's formulas.

Keras writes an update as a dozen operations, each of which reads and writes arrays of the model's size. On the CPU that
is a good part of a large model's step.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from tfdist.keras_repairs.updates import is_of_this_replica, own_copy

Function = Callable[..., Any]


def sgd(original: Function) -> Function:
    """Repairs `SGD.update_step`, with and without momentum (Sutskever et al., 2013, for Nesterov's)."""

    def repaired(self: Any, gradient: Any, variable: Any, learning_rate: Any) -> None:
        target = own_copy(variable) if is_of_this_replica() else None
        if not _is_fit(gradient, target):
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


def adam(original: Function) -> Function:
    """Repairs `Adam.update_step` and so AdamW's (Kingma and Ba, 2015, in the form before their section 2.1)."""

    def repaired(self: Any, gradient: Any, variable: Any, learning_rate: Any) -> None:
        target = own_copy(variable) if is_of_this_replica() else None
        if not _is_fit(gradient, target) or self.amsgrad:
            original(self, gradient, variable, learning_rate)
            return

        def cast(value: Any) -> tf.Tensor:
            # As Keras casts the betas for their powers: a float of Python's by way of float32.
            return tf.cast(value, target.dtype)

        def exact(value: float) -> tf.Tensor:
            return tf.constant(value, target.dtype)

        place, step = self._get_variable_index(variable), cast(own_copy(self.iterations) + 1)
        tf.raw_ops.ResourceApplyAdam(
            var=target.handle,
            m=own_copy(self._momentums[place]).handle,
            v=own_copy(self._velocities[place]).handle,
            beta1_power=tf.pow(cast(self.beta_1), step),
            beta2_power=tf.pow(cast(self.beta_2), step),
            lr=cast(learning_rate),
            beta1=exact(self.beta_1),
            beta2=exact(self.beta_2),
            epsilon=exact(self.epsilon),
            grad=gradient,
        )

    return repaired


def _is_fit(gradient: Any, target: Any) -> bool:
    """Whether the kernels can take them: sparse gradients and those of another precision are Keras's matter."""
    return target is not None and isinstance(gradient, tf.Tensor) and gradient.dtype == target.dtype
