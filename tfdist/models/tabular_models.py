"""A model of tables: numbers of any scale, to a class or to numbers."""

from __future__ import annotations

from collections.abc import Sequence

import keras

from tfdist.models.output_heads import probabilities


def tabular(
    inputs: Sequence[int], hidden: Sequence[int], classes: int | None = None, outputs: int = 1
) -> keras.Model:
    """A multilayer perceptron on standardized columns: each is brought to mean 0 and variance 1 over the samples.

    Args:
        inputs: The shape of a sample, such as `[13]`.
        hidden: The width of each hidden layer.
        classes: Number of classes; None to predict numbers.
        outputs: How many numbers are predicted.

    Returns:
        A model from float32 [k, *inputs] to probabilities [k, classes], or to numbers [k, outputs].
    """
    sample = keras.Input(tuple(inputs))
    x = keras.layers.Flatten()(sample)
    # Of the global batch: the same on any number of replicas.
    x = keras.layers.BatchNormalization(center=False, scale=False)(x)
    for width in hidden:
        x = keras.layers.Dense(width, activation="relu")(x)
    y = keras.layers.Dense(outputs, dtype="float32")(x) if classes is None else probabilities(x, classes)
    return keras.Model(sample, y, name="tabular")
