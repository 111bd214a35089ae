"""Models that are timed, in Keras, with random data of their shape."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np

from benchmarks import model_sizes
from benchmarks.model_sizes import (
    SIZES,
    ConvolutionalNet,
    EmbeddingBag,
    ModelSize,
    Perceptron,
    ResidualNet,
    Transformer,
)

layers = keras.layers

NAMES = tuple(SIZES)

_EPSILON = 1e-5
"""What PyTorch's layer normalisation adds to the variance."""


def build(name: str, *, xla: bool = False) -> keras.Model:
    """A compiled model, with the sizes of `model_sizes.SIZES`; with XLA if `xla`."""
    model = network(name)
    model.compile(
        optimizer(),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
        jit_compile=xla,
    )
    return model


def network(name: str) -> keras.Model:
    """A model that is not compiled, from samples to logits [k, 10]."""
    return network_of(SIZES[name])


def network_of(size: ModelSize) -> keras.Model:
    """The same of a size; its logits are float32 in any precision."""
    words = model_sizes.vocabulary(size) is not None
    samples = keras.Input(model_sizes.sample_shape(size), dtype="int32" if words else "float32")
    logits = layers.Dense(model_sizes.CLASSES, dtype="float32")(_FEATURES[type(size)](size, samples))
    return keras.Model(samples, logits)


def optimizer() -> keras.optimizers.Optimizer:
    """SGD with momentum, as for every contestant."""
    return keras.optimizers.SGD(model_sizes.LEARNING_RATE, momentum=model_sizes.MOMENTUM)


def shape(name: str) -> tuple[int, ...]:
    """The shape of one sample."""
    return model_sizes.sample_shape(SIZES[name])


def data(name: str, samples: int) -> tuple[np.ndarray, np.ndarray]:
    """Samples (float32 numbers or int32 words) and int32 labels below 10, the same in every process."""
    return data_of(SIZES[name], samples)


def data_of(size: ModelSize, samples: int) -> tuple[np.ndarray, np.ndarray]:
    """The same for a model of a size."""
    generator = np.random.default_rng(0)
    words, shape = model_sizes.vocabulary(size), model_sizes.sample_shape(size)
    if words is None:
        x = generator.standard_normal((samples, *shape), np.float32)
    else:
        x = generator.integers(0, words, (samples, *shape), np.int32)
    return x, generator.integers(0, model_sizes.CLASSES, samples, np.int32)


def batches(name: str, batch: int) -> Any:
    """A `tf.data.Dataset` of batches that lie in memory as they are, without an end."""
    import tensorflow as tf

    samples = tf.data.Dataset.from_tensor_slices(data(name, model_sizes.BATCHES * batch))
    return samples.batch(batch, drop_remainder=True).cache().repeat()


def _perceptron(size: Perceptron, x: Any) -> Any:
    for units in size.hidden:
        x = layers.Dense(units, "relu")(x)
    return x


def _convolutions(size: ConvolutionalNet, x: Any) -> Any:
    for filters in size.filters:
        x = layers.MaxPool2D(2)(layers.Conv2D(filters, 3, padding="same", activation="relu")(x))
    return layers.Dense(size.hidden, "relu")(layers.Flatten()(x))


def _transformer(size: Transformer, words: Any) -> Any:
    x = _Positions()(layers.Embedding(size.vocabulary, size.width)(words))
    for _ in range(size.blocks):
        normal = layers.LayerNormalization(epsilon=_EPSILON)(x)
        x = x + layers.MultiHeadAttention(size.heads, size.width // size.heads)(normal, normal)
        normal = layers.LayerNormalization(epsilon=_EPSILON)(x)
        x = x + layers.Dense(size.width)(layers.Dense(4 * size.width, "relu")(normal))
    return layers.GlobalAveragePooling1D()(layers.LayerNormalization(epsilon=_EPSILON)(x))


def _embedding_bag(size: EmbeddingBag, words: Any) -> Any:
    mean = layers.GlobalAveragePooling1D()(layers.Embedding(size.vocabulary, size.width)(words))
    return layers.Dense(size.hidden, "relu")(mean)


def _residual_net(size: ResidualNet, images: Any) -> Any:
    shape = (size.side, size.side, size.channels)
    net = keras.applications.ResNet50(include_top=False, weights=None, input_shape=shape, pooling="avg")
    return net(images)


class _Positions(layers.Layer):
    """Adds a learned vector for each place of [k, length, width]."""

    def build(self, input_shape: tuple[int | None, ...]) -> None:
        self.places = self.add_weight(shape=input_shape[1:], initializer="uniform")

    def call(self, x: Any) -> Any:
        return x + self.places


_FEATURES: dict[type[ModelSize], Callable[[Any, Any], Any]] = {
    Perceptron: _perceptron,
    ConvolutionalNet: _convolutions,
    Transformer: _transformer,
    EmbeddingBag: _embedding_bag,
    ResidualNet: _residual_net,
}
