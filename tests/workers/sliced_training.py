"""Trains models whose layers compute with slices of their weights.

Prints the numbers, which weights were gathered, by which operations own rows were put together, and what was refused.
Run with the size of the mesh's batch axis, the samples, and the kinds of models.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import layers, ops

from tfdist.errors import UnsupportedError
from tfdist.keras_repairs.sharded_parameters import axis_weights
from tfdist.keras_repairs.tensor_parallel import created_operations
from tfdist.keras_repairs.tensor_parallel.sliced_tensors import SlicedRows

groups, samples, kinds = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
devices = keras.distribution.list_devices()
keras.config.set_floatx("float64")
if len(devices) > 1:
    mesh = keras.distribution.DeviceMesh((groups, len(devices) // groups), ["batch", "model"], devices)
    layout = keras.distribution.LayoutMap(mesh)
    for pattern, axes in {
        "^(up|alone).*kernel": (None, "model"),
        "^up.*bias": ("model",),
        "^down.*kernel": ("model", None),
        "^table.*embeddings": ("model", None),
        "^places/embeddings": (None, "model"),
        "attention.*(query|key|value)/kernel": (None, "model", None),
        "attention.*(query|key|value)/bias": ("model", None),
        "attention.*output/kernel": ("model", None, None),
        "^wide.*kernel": (None, None, "model"),
        "^wide.*bias": ("model",),
        "^narrow.*kernel": (None, "model", None),
    }.items():
        layout[pattern] = axes
    keras.distribution.set_distribution(keras.distribution.ModelParallel(layout_map=layout, batch_dim_name="batch"))

gathered: list[str] = []
read_full = axis_weights.read


def noted(shard: Any, dtype: Any, stored: Any) -> Any:
    """Notes which weight is gathered where code reads it; a step of the user's does."""
    if kind != "own_step":
        gathered.append(shard.variable.path)
    return read_full(shard, dtype, stored)


axis_weights.read = noted
joined: set[str] = set()
refused: list[str] = []
of_slices = created_operations.of_slices


def noting(op_type: str, inputs: Any, attributes: Any) -> Any:
    """Notes which operations have own rows put together."""
    found = of_slices(op_type, inputs, attributes)
    if found is None and not kind.startswith("own") and any(isinstance(part, SlicedRows) for _, part in inputs):
        joined.add(op_type)
    return found


created_operations.of_slices = noting


class OwnProduct(layers.Layer):
    """A layer of a user's."""

    def build(self, shape: Any) -> None:
        self.kernel = self.add_weight(shape=(shape[-1], 9), name="kernel")

    def call(self, x: Any) -> Any:
        return ops.tanh(ops.matmul(x, self.kernel)) * 2.0


class Silu(layers.Layer):
    """Calls a function of TensorFlow with a gradient of its own."""

    def call(self, x: Any) -> Any:
        return tf.nn.silu(x)


class OwnStep(keras.Model):
    """A step of a user's."""

    def train_step(self, data: Any) -> Any:
        x, y = data
        with tf.GradientTape() as tape:
            hidden = self.get_layer("up_a")(x)
            total = ops.sum(hidden)
        try:
            tape.gradient(total, hidden)
        except UnsupportedError as error:
            refused.append(str(error))
        with tf.GradientTape() as tape:
            loss = ops.mean(ops.square(self(x, training=True) - y))
        weights = self.trainable_variables
        before = [weight * 1.0 for weight in weights]
        self.optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))
        pairs = zip(before, weights, strict=True)
        changed = sum(ops.sum(ops.abs(weight - old)) for old, weight in pairs)
        return {"squares": loss, "changed": changed}


rng = np.random.default_rng(0)
numbers, targets = rng.normal(size=(samples, 8)), rng.normal(size=(samples, 3))
ids = rng.integers(0, 50, (samples, 6))
ids[::3, 4:] = 0


def gated(model: type[keras.Model] = keras.Model) -> Any:
    """Products by columns and by rows, with what is between them; what the next layer needs in full, too."""
    x = keras.Input((8,))
    hidden = layers.Dense(12, name="down_b")(layers.Dense(33, "tanh", name="up_a")(x))
    hidden = layers.BatchNormalization()(hidden)
    gate = layers.Dense(20, "silu", name="up_c")(hidden) * layers.Dense(20, "gelu", name="up_d")(hidden)
    hidden = layers.Dense(20, name="down_e")(gate) + gate
    hidden = OwnProduct(name="alone_f")(layers.Dense(13, "softmax", name="alone_g")(hidden))
    return model(x, layers.Dense(3)(hidden)), numbers, targets, "mse"


def own_gradient() -> Any:
    """A function with a gradient of its own behind a product by columns, times another product by columns."""
    x = keras.Input((8,))
    hidden = layers.BatchNormalization()(layers.Dense(6, "tanh")(x))
    gate = Silu()(layers.Dense(20, name="up_h")(hidden)) * layers.Dense(20, "gelu", name="up_i")(hidden)
    return keras.Model(x, layers.Dense(3, name="down_j")(gate)), numbers, targets, "mse"


def classifier() -> Any:
    """Self-attention with padding and dropout, and convolutions."""
    x = keras.Input((6,), dtype="int64")
    hidden = layers.Embedding(50, 12, mask_zero=True, name="table_a")(x) + layers.Embedding(6, 12, name="places")(x % 6)
    attention = layers.MultiHeadAttention(3, 4, dropout=0.2, name="attention_b")
    hidden = attention(layers.LayerNormalization()(hidden), hidden)
    hidden = layers.Conv1D(7, 3, activation="relu", name="wide_c")(hidden)
    hidden = layers.Conv1D(5, 3, padding="same", name="narrow_d")(hidden)
    return keras.Model(x, layers.Dense(3)(layers.GlobalAveragePooling1D()(hidden))), ids, targets, "mse"


def language() -> Any:
    """Causal attention of groups of heads, a feed-forward block, and tied embeddings."""
    x = keras.Input((6,), dtype="int64")
    table = layers.ReversibleEmbedding(50, 12, name="table_b")
    hidden = table(x)
    attention = layers.GroupQueryAttention(4, 4, 2, name="attention_a")
    hidden = hidden + attention(hidden, hidden, use_causal_mask=True)
    inner = layers.Dropout(0.3)(layers.Dense(48, "gelu", name="up_f")(layers.LayerNormalization()(hidden)))
    hidden = hidden + layers.Dense(12, name="down_g")(inner)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    return keras.Model(x, table(hidden, reverse=True)), ids, np.roll(ids, -1, 1), loss


MODELS: dict[str, Callable[[], Any]] = {
    "gated": gated,
    "own_step": lambda: gated(OwnStep),
    "own_gradient": own_gradient,
    "classifier": classifier,
    "language": language,
}

found: dict[str, Any] = {}
for kind in kinds:
    keras.utils.set_random_seed(3)
    model, inputs, labels, loss = MODELS[kind]()
    model.compile(keras.optimizers.Adam(0.01, clipnorm=0.5), None if kind == "own_step" else loss)
    fitted = model.fit(inputs, labels, batch_size=16, epochs=2, verbose=0)
    evaluated = 0.0 if kind == "own_step" else model.evaluate(inputs, labels, verbose=0)
    predicted = model.predict(inputs, verbose=0)
    # A gradient by the bias of the keys is rounding alone, of which Adam makes a step.
    weights = [w for w in model.weights if not w.path.endswith(("key/bias", "first/bias"))]
    found[kind] = [fitted.history, evaluated, predicted.tolist(), [np.asarray(weight).tolist() for weight in weights]]
print(json.dumps({"trained": found, "gathered": sorted(set(gathered)), "joined": sorted(joined), "refused": refused}))
