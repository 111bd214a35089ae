"""Times of a step of `fit`: of a model that computes much, and of one that sends much."""

from __future__ import annotations

import time
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfdist.selftest.matrix.row_runner import RowContext, RowFunction
from tfdist.training import api

layers = keras.layers

_EPOCHS = 4
"""The first one traces; of the others the fastest counts."""


def convolutions() -> keras.Model:
    """A convolutional net of 0.6 million parameters on images of 32 x 32 x 3."""
    blocks = [
        layer
        for filters in (32, 64, 128)
        for layer in (
            layers.Conv2D(filters, 3, padding="same", activation="relu"),
            layers.Conv2D(filters, 3, padding="same", activation="relu"),
            layers.MaxPooling2D(),
        )
    ]
    return keras.Sequential(
        [keras.Input((32, 32, 3)), *blocks, layers.Flatten(), layers.Dense(128, activation="relu"), layers.Dense(10)]
    )


def wide() -> keras.Model:
    """Dense layers of 13 million parameters, whose gradients are 50 MB, on vectors of 1,024 numbers."""
    hidden = [layers.Dense(2048, activation="relu") for _ in range(3)]
    return keras.Sequential([keras.Input((1024,)), *hidden, layers.Dense(10)])


def speed(context: RowContext) -> Mapping[str, Any]:
    """Trains both with the same number of samples on every replica."""
    return {
        "convolutions": _timed(context, convolutions(), (32, 32, 3), samples=64, steps=8),
        "wide": _timed(context, wide(), (1024,), samples=64, steps=8),
    }


def _timed(
    context: RowContext, model: keras.Model, shape: tuple[int, ...], *, samples: int, steps: int
) -> dict[str, Any]:
    """Seconds of a step, and the samples of its global batch."""
    batch = samples * api.num_replicas()
    draw = np.random.default_rng(3)
    x, y = draw.normal(size=(batch, *shape)).astype(np.float32), draw.integers(0, 10, batch)
    # One batch again and again: what is timed is the step, and not how data are read.
    data = tf.data.Dataset.from_tensors((x, y)).repeat(steps)
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    watch = _EpochWatch()
    context.fit(model, data, epochs=_EPOCHS, callbacks=[watch])
    return {"seconds": min(watch.seconds[1:]) / steps, "batch": batch}


class _EpochWatch(keras.callbacks.Callback):
    """Notes the seconds of each epoch, whose end waits for the devices: it reads the loss."""

    def __init__(self) -> None:
        super().__init__()
        self.seconds: list[float] = []
        self._begin = 0.0

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self._begin = time.monotonic()

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self.seconds.append(time.monotonic() - self._begin)


ROWS: Mapping[str, RowFunction] = MappingProxyType({"speed": speed})
