"""Small models: classifiers of vectors, images and texts, and a model of tables."""

from __future__ import annotations

from collections.abc import Sequence

import keras


def probabilities(x: keras.KerasTensor, classes: int) -> keras.KerasTensor:
    """Returns the probabilities of classes, float32 [k, classes], from features [k, n]."""
    # In float32 whatever the precision of the rest: a half-precision softmax loses small probabilities.
    return keras.layers.Dense(classes, activation="softmax", dtype="float32")(x)


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


def text_classifier(vocabulary: int, length: int, classes: int, width: int = 32) -> keras.Model:
    """The mean of the words' embeddings, and a dense layer on it (fastText: Joulin et al., 2016).

    Args:
        vocabulary: Words are numbered from 0 to `vocabulary - 1`.
        length: Words of a text; shorter texts are filled up.
        classes: Number of classes.
        width: Size of an embedding.

    Returns:
        A model from int [k, length] to probabilities [k, classes].
    """
    words = keras.Input((length,), dtype="int32")
    x = keras.layers.Embedding(vocabulary, width)(words)
    x = keras.layers.GlobalAveragePooling1D()(x)
    return keras.Model(words, probabilities(x, classes), name="text_classifier")


def transformer(
    vocabulary: int, length: int, classes: int, width: int = 64, heads: int = 4, blocks: int = 2
) -> keras.Model:
    """A transformer encoder (Vaswani et al., 2017), normalised before each sublayer, without dropout.

    Args:
        vocabulary: Words are numbered from 0 to `vocabulary - 1`.
        length: Words of a text; shorter texts are filled up.
        classes: Number of classes.
        width: Size of an embedding, a multiple of `heads`.
        heads: Attention heads of each block.
        blocks: Number of blocks.

    Returns:
        A model from int [k, length] to probabilities [k, classes].
    """
    words = keras.Input((length,), dtype="int32")
    positions = keras.ops.cumsum(keras.ops.ones_like(words), axis=1) - 1
    x = keras.layers.Embedding(vocabulary, width)(words) + keras.layers.Embedding(length, width)(positions)
    for _ in range(blocks):
        normal = keras.layers.LayerNormalization()(x)
        x = x + keras.layers.MultiHeadAttention(heads, width // heads)(normal, normal)
        normal = keras.layers.LayerNormalization()(x)
        x = x + keras.layers.Dense(width)(keras.layers.Dense(4 * width, activation="gelu")(normal))
    x = keras.layers.GlobalAveragePooling1D()(keras.layers.LayerNormalization()(x))
    return keras.Model(words, probabilities(x, classes), name="transformer")


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
