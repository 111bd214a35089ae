"""A layer that is another thing in an artefact than in Keras."""

from __future__ import annotations

import keras
import tensorflow as tf


@keras.saving.register_keras_serializable("tests")
class Lying(keras.layers.Layer):
    """Multiplies by 1.1 in a graph."""

    def call(self, x: tf.Tensor) -> tf.Tensor:
        """As the class says."""
        return x * (1.0 if tf.executing_eagerly() else 1.1)
