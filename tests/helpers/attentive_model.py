"""A small model with attention in float64, so that any number of workers has the same numbers but for rounding."""

from __future__ import annotations

import keras

WORDS, LENGTH, CLASSES = 11, 6, 3


def model() -> keras.Model:
    keras.config.set_floatx("float64")
    keras.config.set_dtype_policy("float64")
    return attentive_model()


def attentive_model() -> keras.Model:
    """From int [k, LENGTH] to probabilities [k, CLASSES]."""
    words = keras.Input((LENGTH,), dtype="int32")
    x = keras.layers.Embedding(WORDS, 8)(words)
    x = keras.layers.LayerNormalization()(x + keras.layers.MultiHeadAttention(2, 4)(x, x))
    x = keras.layers.GlobalAveragePooling1D()(keras.layers.Dense(8, "tanh")(x))
    return keras.Model(words, keras.layers.Dense(CLASSES, "softmax")(x))
