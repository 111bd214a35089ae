"""Sizes of the models that are timed, the same for TensorFlow's and for PyTorch's; imports neither."""

from __future__ import annotations

from dataclasses import dataclass

BATCH = 256
"""Samples of a global batch."""

CLASSES = 10
LEARNING_RATE = 0.01
MOMENTUM = 0.9
BATCHES = 8
"""Batches of data in memory, one after another, again and again."""


@dataclass(frozen=True)
class Perceptron:
    """Dense layers with ReLU between them, on float32 samples [inputs]."""

    inputs: int
    hidden: tuple[int, ...]


@dataclass(frozen=True)
class ConvolutionalNet:
    """3x3 convolutions with ReLU, each with 2x2 pooling behind it, and a dense layer.

    On float32 samples [side, side, channels]. `side` is a multiple of 2 ** len(filters).
    """

    side: int
    channels: int
    filters: tuple[int, ...]
    hidden: int


@dataclass(frozen=True)
class Transformer:
    """An encoder that normalises before each sublayer, with ReLU and without dropout, on int32 words [length].

    The classes are told from the mean over the words.
    """

    vocabulary: int
    length: int
    width: int
    heads: int
    blocks: int


@dataclass(frozen=True)
class EmbeddingBag:
    """The mean of the words' embeddings and a dense layer with ReLU, on int32 words [length]."""

    vocabulary: int
    length: int
    width: int
    hidden: int


@dataclass(frozen=True)
class ResidualNet:
    """ResNet50, on float32 samples [side, side, channels] from 0 to 1; `side` is 32 or more."""

    side: int
    channels: int


ModelSize = Perceptron | ConvolutionalNet | Transformer | EmbeddingBag | ResidualNet

SIZES: dict[str, ModelSize] = {
    "mlp": Perceptron(784, (512, 512)),
    "wide": Perceptron(784, (3072, 3072, 3072, 1024)),
    "cnn": ConvolutionalNet(32, 3, (32, 64, 128), 256),
    "transformer": Transformer(2000, 32, 128, 4, 2),
    "embedding": EmbeddingBag(100_000, 20, 64, 128),
}
"""Parameters: 0.67 M, 24.4 M, 0.62 M, 0.66 M and 6.41 M."""


def vocabulary(size: ModelSize) -> int | None:
    """How many words the samples are made of; None where they are numbers."""
    return size.vocabulary if isinstance(size, Transformer | EmbeddingBag) else None


def sample_shape(size: ModelSize) -> tuple[int, ...]:
    """The shape of one sample, as TensorFlow has it: channels last."""
    if isinstance(size, Perceptron):
        return (size.inputs,)
    if isinstance(size, ConvolutionalNet | ResidualNet):
        return (size.side, size.side, size.channels)
    return (size.length,)
