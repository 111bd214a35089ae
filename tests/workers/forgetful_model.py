"""A model whose checkpoints do not hold all of it."""

from __future__ import annotations

import os

import keras
import tensorflow as tf

from tests.helpers.resumable_model import CLASSES, FEATURES


@keras.saving.register_keras_serializable("tests")
class Forgetful(keras.layers.Layer):
    """Counts the starts of its run, which it should not."""

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        return inputs * (1.0 + 0.5 * int(os.environ["TFDIST_ATTEMPT"]))


def model() -> keras.Model:
    """Trains otherwise after each restart."""
    head = keras.layers.Dense(CLASSES, activation="softmax")
    return keras.Sequential([keras.Input((FEATURES,)), Forgetful(), head])
