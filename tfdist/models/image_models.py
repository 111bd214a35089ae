"""Classifiers of vectors and images, of any scale: each sample is first brought to mean 0 and variance 1."""

from __future__ import annotations

from collections.abc import Sequence

import keras

from tfdist.models.output_heads import probabilities


def mlp(inputs: Sequence[int], hidden: Sequence[int], classes: int) -> keras.Model:
    """A multilayer perceptron.

    Args:
        inputs: The shape of a sample, such as `[64]`.
        hidden: The width of each hidden layer.
        classes: Number of classes.

    Returns:
        A model from float32 [k, *inputs] to probabilities [k, classes].
    """
    sample = keras.Input(tuple(inputs))
    x = keras.layers.Flatten()(sample)
    x = keras.layers.LayerNormalization(center=False, scale=False)(x)
    for width in hidden:
        x = keras.layers.Dense(width, activation="relu")(x)
    return keras.Model(sample, probabilities(x, classes), name="mlp")


def cnn(input_shape: Sequence[int], filters: Sequence[int], classes: int) -> keras.Model:
    """A convolutional network: 3x3 convolutions, each followed by 2x2 pooling.

    Args:
        input_shape: `[height, width, channels]`, the first two at least `2 ** len(filters)`.
        filters: The number of filters of each convolution.
        classes: Number of classes.

    Returns:
        A model from float32 [k, *input_shape] to probabilities [k, classes].
    """
    image = keras.Input(tuple(input_shape))
    x = keras.layers.LayerNormalization(axis=[1, 2, 3], center=False, scale=False)(image)
    for count in filters:
        x = keras.layers.Conv2D(count, 3, padding="same", activation="relu")(x)
        x = keras.layers.MaxPooling2D()(x)
    x = keras.layers.Flatten()(x)
    return keras.Model(image, probabilities(x, classes), name="cnn")
