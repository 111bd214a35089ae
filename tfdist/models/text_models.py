"""Classifiers of texts, whose words are numbers."""

from __future__ import annotations

import keras

from tfdist.models.output_heads import probabilities


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
