"""Updates by sparse gradients that touch the rows of a batch alone.

Keras's Adagrad computes with its whole state in each step, and changes some rows. Here the same numbers are computed
for these rows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from tfdist.keras_repairs.base.replica_copies import is_of_this_replica, own_copy

Function = Callable[..., Any]


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
