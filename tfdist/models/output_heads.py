"""Output layers of models."""

from __future__ import annotations

import keras


def probabilities(x: keras.KerasTensor, classes: int) -> keras.KerasTensor:
    """Returns the probabilities of classes, float32 [k, classes], from features [k, n]."""
    # In float32 whatever the precision of the rest: a half-precision softmax loses small probabilities.
    return keras.layers.Dense(classes, activation="softmax", dtype="float32")(x)
