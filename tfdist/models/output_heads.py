"""What models end in."""

from __future__ import annotations

import keras


def probabilities(x: keras.KerasTensor, classes: int) -> keras.KerasTensor:
    """From features [k, n] to the probabilities of classes, float32 [k, classes]."""
    # In float32 whatever the precision of the rest: a half-precision softmax loses small probabilities.
    return keras.layers.Dense(classes, activation="softmax", dtype="float32")(x)
