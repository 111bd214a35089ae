"""Models that are timed, with random data of their shape."""

from __future__ import annotations

import keras
import numpy as np

layers = keras.layers

IMAGE = (32, 32, 3)
NAMES = ("mlp", "cnn", "wide")


def build(name: str) -> keras.Model:
    """A compiled model: `mlp` (0.67 M parameters), `cnn` (0.62 M, 32x32x3 images) or `wide` (24.4 M)."""
    model = keras.Sequential([keras.Input(shape(name)), *_LAYERS[name](), layers.Dense(10)])
    model.compile(
        keras.optimizers.SGD(0.01, momentum=0.9),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
        jit_compile=False,
    )
    return model


def shape(name: str) -> tuple[int, ...]:
    """The shape of one sample."""
    return IMAGE if name == "cnn" else (784,)


def data(name: str, samples: int) -> tuple[np.ndarray, np.ndarray]:
    """float32 samples and int32 labels below 10, the same in every process."""
    generator = np.random.default_rng(0)
    x = generator.standard_normal((samples, *shape(name)), np.float32)
    return x, generator.integers(0, 10, samples, np.int32)


def _convolutions() -> list[keras.layers.Layer]:
    blocks = []
    for filters in (32, 64, 128):
        blocks += [layers.Conv2D(filters, 3, padding="same", activation="relu"), layers.MaxPool2D(2)]
    return [*blocks, layers.Flatten(), layers.Dense(256, "relu")]


_LAYERS = {
    "mlp": lambda: [layers.Dense(512, "relu"), layers.Dense(512, "relu")],
    "cnn": _convolutions,
    "wide": lambda: [*(layers.Dense(3072, "relu") for _ in range(3)), layers.Dense(1024, "relu")],
}
