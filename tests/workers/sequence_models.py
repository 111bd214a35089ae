"""Models of sequences that `--context` cuts along their positions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import layers, ops

POSITIONS = 7


class Sequences:
    """The data of the models: numbers, ids with padding, and what is to be predicted at every position."""

    def __init__(self, samples: int) -> None:
        rng = np.random.default_rng(1)
        self.numbers = rng.normal(size=(samples, POSITIONS, 6))
        self.targets = rng.normal(size=(samples, POSITIONS, 3))
        self.ids = rng.integers(1, 50, (samples, POSITIONS))
        self.ids[::3, 5:] = 0
        self.weights = rng.uniform(size=(samples, POSITIONS))
        self.of_samples = rng.normal(size=(samples, 3))

    @property
    def next_ids(self) -> Any:
        return np.roll(self.ids, -1, 1)


class Places(layers.Layer):
    """Adds a weight for each place, as KerasHub does."""

    supports_masking = True

    def build(self, shape: Any) -> None:
        self.table = self.add_weight(shape=(2 * POSITIONS, shape[-1]), name="table")

    def call(self, x: Any) -> Any:
        shape = ops.shape(x)
        places = ops.slice(ops.convert_to_tensor(self.table), (0, 0), (shape[1], shape[2]))
        return x + ops.broadcast_to(places, shape) / ops.cast(shape[1], x.dtype)


class OwnAttention(layers.Layer):
    """Attention by functions of TensorFlow: of one head, of heads that come before positions, and of all past ones."""

    def build(self, shape: Any) -> None:
        for name in ("query", "key", "value"):
            setattr(self, name, self.add_weight(shape=(shape[-1], shape[-1]), name=name))
        self.of_head = self.add_weight(shape=(4, 3, 3), name="of_head")

    def call(self, x: Any) -> Any:
        query, key, value = (tf.matmul(x, weight) for weight in (self.query, self.key, self.value))
        scores = tf.matmul(query, key, transpose_b=True)
        one = tf.matmul(tf.nn.softmax(tf.linalg.band_part(scores, -1, 0)), value)
        query, key, value = (
            tf.transpose(tf.reshape(each, (-1, POSITIONS, 4, 3)), (0, 2, 1, 3)) for each in (query, key, value)
        )
        query = tf.einsum("bhtd,hde->bhte", query, self.of_head)
        several = tf.matmul(tf.nn.softmax(tf.matmul(query, key, transpose_b=True)), value)
        several = tf.reshape(tf.transpose(several, (0, 2, 1, 3)), (-1, POSITIONS, 12))
        several += tf.vectorized_map(lambda sample: tf.cumsum(sample, 0) * tf.reduce_max(sample), several)
        past = tf.cumsum(x, 1) / tf.reshape(tf.range(1.0, POSITIONS + 1.0, dtype=x.dtype), (1, -1, 1))
        return tf.concat([one + several, past], -1)


class Mixer(layers.Layer):
    """A product along the positions, with a weight of their number."""

    def build(self, shape: Any) -> None:
        self.kernel = self.add_weight(shape=(shape[1], shape[1]), name="kernel")

    def call(self, x: Any) -> Any:
        return x + ops.einsum("btf,ts->bsf", x, self.kernel) + ops.flip(x, 1) + ops.roll(x, 2, 1) * x[:, :1]


def block(x: Any, heads: int, **how: Any) -> Any:
    """A block of a transformer."""
    attended = layers.MultiHeadAttention(heads, 4, dropout=how.pop("dropout", 0.0))
    normalized = layers.LayerNormalization()(x)
    x = x + attended(normalized, normalized, **how)
    inner = layers.Dropout(0.2)(layers.Dense(48, "gelu")(layers.RMSNormalization()(x)))
    return x + layers.Dense(12)(inner)


def decoder(data: Sequences) -> Any:
    """Blocks with a causal mask and padding, of as many heads as workers or more, and of one head."""
    ids = keras.Input((POSITIONS,), dtype="int64")
    table = layers.ReversibleEmbedding(50, 12, mask_zero=True)
    x = block(block(Places()(table(ids)), 4, use_causal_mask=True), 1, use_causal_mask=True, dropout=0.1)
    grouped = layers.GroupQueryAttention(4, 4, 2)
    x = layers.LayerNormalization()(x + grouped(x, x, use_causal_mask=True))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=0)
    return keras.Model(ids, table(x, reverse=True)), data.ids, data.next_ids, loss, ["accuracy"]


def translation(data: Sequences) -> Any:
    """Cross attention of a sequence to another one of another length, and to a mask that the script gives."""
    source, target = keras.Input((POSITIONS - 2,), dtype="int64"), keras.Input((POSITIONS,), dtype="int64")
    mask = keras.Input((POSITIONS, POSITIONS - 2), dtype="bool")
    table = layers.Embedding(50, 12, mask_zero=True)
    encoded = block(table(source), 2)
    x = layers.MultiHeadAttention(3, 4)(block(table(target), 2, use_causal_mask=True), encoded, attention_mask=mask)
    seen = np.random.default_rng(2).uniform(size=(len(data.ids), POSITIONS, POSITIONS - 2)) > 0.3
    inputs = [data.ids[:, 2:], data.ids, seen]
    model = keras.Model([source, target, mask], layers.Dense(50, "softmax")(x))
    return model, inputs, data.next_ids, "sparse_categorical_crossentropy", ["accuracy"]


def mixed(data: Sequences) -> Any:
    """What mixes positions: convolutions, recurrent layers, pooling, statistics, products along the positions."""
    x = keras.Input((POSITIONS, 6))
    hidden = Mixer()(layers.BatchNormalization()(layers.Dense(12, "tanh", activity_regularizer="l2")(x)))
    hidden = layers.SpatialDropout1D(0.2)(layers.Conv1D(12, 3, padding="same")(hidden))
    hidden = OwnAttention()(layers.GroupNormalization(3)(hidden))
    hidden = layers.Bidirectional(layers.GRU(4, return_sequences=True))(layers.GaussianNoise(0.1)(hidden))
    hidden = layers.Attention()([hidden, hidden]) + layers.AdditiveAttention()([hidden, hidden])
    outputs = [layers.Dense(3)(hidden), layers.Dense(3)(layers.Concatenate()(pooled(hidden)))]
    return keras.Model(x, outputs), data.numbers, [data.targets, data.of_samples], ["huber", "mse"], [["mae"], ["mae"]]


def pooled(x: Any) -> list[Any]:
    """A vector of each sample."""
    last = layers.Flatten()(layers.Cropping1D((0, POSITIONS - 2))(x))
    return [layers.GlobalAveragePooling1D()(x), layers.GlobalMaxPooling1D()(x), last, ops.mean(layers.Softmax(1)(x), 1)]


def weighted(data: Sequences) -> Any:
    """Losses and metrics of positions, by weights of samples and positions, and losses that a layer adds."""
    x = keras.Input((POSITIONS, 6))
    hidden = block(layers.Dense(12)(x), 3)
    hidden = layers.ActivityRegularization(0.01)(hidden)
    outputs = [layers.Dense(3, "sigmoid")(hidden), layers.Dense(3, "softmax")(hidden), layers.Dense(3)(hidden)]
    model = keras.Model(x, outputs)
    hot = np.eye(3)[data.ids % 3]
    losses = ["binary_crossentropy", "categorical_crossentropy", "cosine_similarity"]
    metrics = [["AUC", "binary_accuracy"], ["accuracy", "kl_divergence"], ["mse"]]
    return model, data.numbers, [hot, hot, data.targets], losses, metrics, [data.weights] * 3


class OwnStep(keras.Model):
    """A step of a user's, whose gradients it takes, clips and applies itself."""

    def train_step(self, given: Any) -> Any:
        x, y, _ = keras.utils.unpack_x_y_sample_weight(given)
        with tf.GradientTape() as tape:
            outputs = self(x, training=True)
            by_position = ops.mean(ops.square(outputs - y), -1)
            loss = ops.mean(by_position) + 0.1 * ops.mean(ops.logsumexp(outputs, axis=-1))
            hidden = self.layers[1](x)
            # What is exchanged here is not recorded, and is exchanged again below.
            with tape.stop_recording():
                ops.max(ops.flip(hidden, 1))
            loss += 0.1 * ops.mean(ops.square(ops.flip(hidden, 1)[:, 0]))
        weights = self.trainable_variables
        gradients, norm = tf.clip_by_global_norm(tape.gradient(loss, weights), 0.3)
        self.optimizer.apply_gradients(zip(gradients, weights, strict=True))
        return {"squares": loss, "norm": norm}


def own_step(data: Sequences) -> Any:
    x = keras.Input((POSITIONS, 6))
    return OwnStep(x, layers.Dense(3)(block(layers.Dense(12)(x), 2))), data.numbers, data.targets, None


MODELS: dict[str, Callable[[Sequences], Any]] = {
    "decoder": decoder,
    "translation": translation,
    "mixed": mixed,
    "weighted": weighted,
    "own_step": own_step,
}
"""By their names: each gives the model, inputs, targets, loss, metrics and weights of the samples."""
