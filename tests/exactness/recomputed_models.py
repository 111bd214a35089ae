"""Models whose activations are computed again in the backward pass, and the same ones that keep them."""

from __future__ import annotations

import contextlib
from typing import Any

import keras
import tensorflow as tf

layers = keras.layers

MODES: dict[str, dict[str, Any]] = {
    "full": {"mode": "full"},
    "larger_than": {"mode": "larger_than", "output_size_threshold": 7},
    "list_of_layers": {"mode": "list_of_layers", "layer_names": ["block", "second", "normalization", "drop"]},
    "activations": {"mode": "activations"},
}
"""Arguments of `keras.RematScope`."""


class Block(layers.Layer):
    """What must happen once, though it is computed twice: draws, moving averages, added losses, a metric."""

    def __init__(self, units: int, **options: Any) -> None:
        super().__init__(**options)
        self.hidden = layers.Dense(2 * units, activation="gelu", kernel_regularizer=keras.regularizers.L2(0.01))
        self.normalization = layers.BatchNormalization(momentum=0.8)
        self.dropout = layers.Dropout(0.3, seed=5)
        self.out = layers.Dense(units, activity_regularizer=keras.regularizers.L2(0.01))
        self.size = keras.metrics.Mean(name=f"size_of_{self.name}")
        self.calls = self.add_weight(shape=(), initializer="zeros", trainable=False, name="calls")

    def build(self, shape: Any) -> None:
        self.hidden.build(shape)
        width = (*shape[:-1], self.hidden.units)
        self.normalization.build(width)
        self.out.build(width)
        self.built = True

    def call(self, x: Any, mask: Any = None, training: bool = False) -> Any:
        y = self.dropout(self.normalization(self.hidden(x), training=training), training=training)
        self.add_loss(0.1 * keras.ops.mean(keras.ops.square(y)))
        self.size.update_state(keras.ops.mean(keras.ops.abs(y), axis=-1))
        self.calls.assign_add(1.0)
        return x + self.out(y)

    def compute_output_shape(self, shape: Any) -> Any:
        return shape


def scope(mode: str | None) -> Any:
    """A `keras.RematScope` of `MODES`; for None nothing is computed again."""
    return contextlib.nullcontext() if mode is None else keras.RematScope(**MODES[mode])


def blocks(mode: str | None) -> keras.Model:
    """Of rows of 6 numbers, into 3 classes."""
    with scope(mode):
        x = inputs = keras.Input((6,))
        x = layers.Dense(6, "tanh", name="first")(x)
        x = Block(6, name="block")(x)
        inner = keras.Sequential([layers.Dense(6, "gelu"), Block(6)], name="second")
        x = keras.ops.multiply(inner(x), 1.5)
        x = layers.BatchNormalization(name="normalization")(x)
        x = layers.GaussianNoise(0.1, seed=4)(layers.Dropout(0.2, seed=3, name="drop")(x))
        return keras.Model(inputs, layers.Dense(3, "softmax")(x))


class Penalized(layers.Layer):
    """Calls a function that `keras.remat` wraps."""

    def __init__(self, *, is_recomputed: bool, **options: Any) -> None:
        super().__init__(**options)
        self.inner = layers.Dense(6, "gelu")
        self.function = keras.remat(self.mixed) if is_recomputed else self.mixed

    def mixed(self, x: Any, scale: float = 1.0) -> Any:
        for _ in range(3):
            x = x + scale * tf.sin(keras.random.dropout(x, 0.2, seed=self.seed) * x)
        return self.inner(x)

    def build(self, shape: Any) -> None:
        self.seed = keras.random.SeedGenerator(9)
        self.inner.build(shape)
        self.built = True

    def call(self, x: Any) -> Any:
        return self.function(x, scale=0.1)


def masked(mode: str | None) -> keras.Model:
    """Of rows of 7 word ids with padding, into 3 classes: attention, recurrent layers, a wrapped function."""
    with scope(mode):
        ids = keras.Input((7,), dtype="int32")
        x = layers.Embedding(20, 6, mask_zero=True)(ids)
        x = layers.MultiHeadAttention(2, 3, dropout=0.1, seed=2)(x, x, use_causal_mask=True)
        x = layers.LayerNormalization()(x)
        x = Penalized(is_recomputed=mode is not None)(layers.GRU(6, return_sequences=True, dropout=0.1, seed=1)(x))
        return keras.Model(ids, layers.Dense(3, "softmax")(layers.GlobalAveragePooling1D()(x)))
