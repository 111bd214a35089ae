"""A small training, and what a file of weights holds: for the tests of what is copied and written while it goes on."""

from __future__ import annotations

from pathlib import Path
from typing import Any, BinaryIO

import h5py
import keras
import numpy as np
import tensorflow as tf

STEPS, BATCH = 6, 4


def sequential(*extra: keras.layers.Layer, units: int = 3) -> keras.Model:
    return keras.Sequential([keras.Input((5,)), keras.layers.Dense(units), *extra, keras.layers.Dense(1)])


def compiled(model: keras.Model, optimizer: Any = "adam") -> keras.Model:
    model.compile(optimizer, "mse", metrics=["mae"])
    return model


def batches() -> tf.data.Dataset:
    x = np.random.default_rng(1).normal(size=(STEPS * BATCH, 5)).astype(np.float32)
    return tf.data.Dataset.from_tensor_slices((x, x[:, :1])).batch(BATCH)


def datasets(file: Path | BinaryIO) -> dict[str, Any]:
    """Everything in an HDF5 file, by its name."""
    found: dict[str, Any] = {}

    def add(name: str, item: Any) -> None:
        content = (item.dtype, item.shape, item[()].tobytes()) if isinstance(item, h5py.Dataset) else ()
        found[name] = (content, dict(item.attrs))

    with h5py.File(file) as content:
        content.visititems(add)
    return found
