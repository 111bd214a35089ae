"""Adam that leaves rows alone which no sample has named. It is another optimizer than Adam."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf
from keras import ops


@keras.saving.register_keras_serializable(package="tfdist")
class LazyAdam(keras.optimizers.Adam):
    """Adam whose moments of a row, and the row, change in steps whose batch names the row, and rest in others.

    Adam (Kingma and Ba, 2015, arXiv:1412.6980) moves every row in every step, by the moments of earlier ones; in a
    table of millions of rows that takes most of the time of a step. Updating the rows of the batch alone gives **other
    numbers**: moments do not decay while a row rests, and its step is larger than Adam's when it comes again. Slices of
    one row are added up first. Dense gradients, and so all layers but embeddings, are updated as by Adam.

    Several workers have the numbers of one device with this optimizer, as with any other.

    Args:
        learning_rate: A number or a schedule.
        beta_1: Decay of the first moment.
        beta_2: Decay of the second moment.
        epsilon: Added to the root of the second moment.
        **kwargs: See `keras.optimizers.Adam`, but for `amsgrad`. `weight_decay` and averages are of all rows in each
            step.

    Raises:
        ValueError: `amsgrad` is asked for.

    Example:
        ```python
        model.compile(tfdist.optimizers.LazyAdam(0.001), "binary_crossentropy")
        ```
    """

    def __init__(
        self,
        learning_rate: Any = 0.001,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-7,
        amsgrad: bool = False,
        name: str = "lazy_adam",
        **kwargs: Any,
    ) -> None:
        if amsgrad:
            raise ValueError("LazyAdam has no AMSGrad. Expected amsgrad=False. Received: amsgrad=True")
        super().__init__(learning_rate, beta_1, beta_2, epsilon, name=name, **kwargs)

    def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
        """Updates a variable, or its rows that a sparse gradient names."""
        if not isinstance(gradient, tf.IndexedSlices):
            super().update_step(gradient, variable, learning_rate)
            return
        dtype, place = variable.dtype, self._get_variable_index(variable)
        m, v = self._momentums[place], self._velocities[place]
        rows, places = tf.unique(gradient.indices)
        sums = tf.math.unsorted_segment_sum(tf.cast(gradient.values, dtype), places, tf.size(rows))
        # As Keras's Adam computes them, so that a step that names all rows has its numbers.
        step = ops.cast(self.iterations + 1, dtype)
        power_1, power_2 = (ops.power(ops.cast(beta, dtype), step) for beta in (self.beta_1, self.beta_2))
        alpha = ops.cast(learning_rate, dtype) * ops.sqrt(1 - power_2) / (1 - power_1)
        old_m, old_v = tf.gather(m.value, rows), tf.gather(v.value, rows)
        new_m = old_m + (sums - old_m) * (1 - self.beta_1)
        new_v = old_v + (tf.square(sums) - old_v) * (1 - self.beta_2)
        self.assign(m, tf.IndexedSlices(new_m, rows, gradient.dense_shape))
        self.assign(v, tf.IndexedSlices(new_v, rows, gradient.dense_shape))
        moved = new_m * alpha / (tf.sqrt(new_v) + self.epsilon)
        self.assign_sub(variable, tf.IndexedSlices(moved, rows, gradient.dense_shape))

    def get_config(self) -> dict[str, Any]:
        """See `keras.optimizers.Adam`."""
        config: dict[str, Any] = super().get_config()
        return config

