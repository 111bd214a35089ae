"""What people write themselves. A script contains the source of those that it names, each complete in itself."""

from __future__ import annotations

import keras
import numpy as np
import tensorflow as tf

import tfdist

layers, ops = keras.layers, keras.ops


def sequences(rng, samples):
    """Ending in zeros, at different lengths."""
    values = rng.normal(size=(samples, 5, 4))
    values[np.arange(5) >= rng.integers(1, 6, samples)[:, None]] = 0.0
    return values


def tokens(rng, samples):
    ids = rng.integers(1, 20, (samples, 5))
    ids[np.arange(5) >= rng.integers(1, 6, samples)[:, None]] = 0
    return ids


def sparse_rows(rng, samples):
    values = rng.normal(size=(samples, 6))
    values[np.abs(values) < 0.5] = 0.0
    return tf.sparse.from_dense(values)


def ragged_rows(rng, samples):
    return tf.ragged.constant([row[row > 0].tolist() for row in tokens(rng, samples)], dtype=tf.int64)


def numbered(rng, samples):
    """Weights of samples, some of them zero."""
    return rng.exponential(size=samples) * (rng.uniform(size=samples) > 0.2)


class Nudge(keras.callbacks.Callback):
    """Moves weights by what rounding does, to see how much comes of it."""

    def __init__(self, size, seed):
        super().__init__()
        self.size, self.rng = size, np.random.default_rng(seed)

    def on_train_begin(self, logs=None):
        for weight in self.model.trainable_weights:
            value = np.asarray(ops.convert_to_numpy(weight), dtype="float64")
            weight.assign(value * (1.0 + self.size * self.rng.choice([-1.0, 1.0], value.shape)))


class DenseRagged(layers.Layer):
    def __init__(self):
        super().__init__()
        self.dense = layers.Dense(4)

    def build(self, shape):
        self.dense.build((None, 5, 20))

    def call(self, ids):
        return self.dense(tf.one_hot(ids.to_tensor(shape=(None, 5)), 20, dtype=self.compute_dtype))

    def compute_output_shape(self, shape):
        return (shape[0], 5, 4)


class Centered(layers.Layer):
    def call(self, inputs):
        return inputs - ops.mean(inputs, axis=0)


class GatheredRanks(layers.Layer):
    def call(self, inputs):
        ranks = tfdist.gathered(lambda x: ops.cast(ops.argsort(ops.argsort(x, axis=0), axis=0), x.dtype))
        return inputs + 0.01 * ranks(inputs)


class MovingMean(layers.Layer):
    def build(self, shape):
        self.mean = self.add_weight(shape=(shape[-1],), initializer="zeros", trainable=False, name="mean")

    def call(self, inputs, training=False):
        if training:
            self.mean.assign(0.9 * self.mean + 0.1 * ops.mean(inputs, axis=0))
        return inputs - ops.cast(self.mean, inputs.dtype)


class Codebook(layers.Layer):
    """Vector quantization with a codebook that follows the batch by moving averages."""

    def build(self, shape):
        options = {"initializer": keras.initializers.RandomNormal(seed=4), "trainable": False}
        self.codes = self.add_weight(shape=(4, shape[-1]), name="codes", **options)

    def call(self, inputs, training=False):
        codes = ops.cast(self.codes, inputs.dtype)
        near = ops.softmax(ops.matmul(inputs, ops.transpose(codes)))
        if training:
            count = ops.expand_dims(ops.sum(near, axis=0), -1) + 1.0
            self.codes.assign(0.9 * self.codes + 0.1 * ops.matmul(ops.transpose(near), inputs) / count)
        return inputs + ops.matmul(near, codes)


class Mixed(layers.Layer):
    def call(self, inputs, training=False):
        return 0.7 * inputs + 0.3 * ops.flip(inputs, axis=0) if training else inputs


class Shuffled(layers.Layer):
    """Mixes rows with others, in an order that is drawn."""

    def __init__(self):
        super().__init__()
        self.seeds = keras.random.SeedGenerator(12)

    def call(self, inputs, training=False):
        return 0.6 * inputs + 0.4 * keras.random.shuffle(inputs, seed=self.seeds) if training else inputs


def penalty_of_pairs(rows):
    return 0.001 * ops.sum(ops.square(ops.matmul(rows, ops.transpose(rows))))


def penalty_of_means(rows):
    return 0.1 * ops.sum(ops.square(ops.mean(rows, axis=0)))


class CovarianceLoss(layers.Layer):
    def call(self, inputs):
        centered = inputs - ops.mean(inputs, axis=0)
        covariance = ops.matmul(ops.transpose(centered), centered) / ops.cast(ops.shape(inputs)[0], inputs.dtype)
        self.add_loss(0.02 * ops.sum(ops.square(covariance)))
        return inputs


class MeanLoss(layers.Layer):
    def call(self, inputs):
        self.add_loss(0.1 * ops.mean(ops.square(inputs)))
        return inputs


class SumLoss(layers.Layer):
    def call(self, inputs):
        self.add_loss(0.003 * ops.sum(ops.square(inputs)))
        return inputs


class VectorLoss(layers.Layer):
    """A value a sample, while it trains."""

    def call(self, inputs, training=False):
        if training:
            self.add_loss(0.01 * ops.sum(ops.abs(inputs), axis=-1))
        return inputs


class OwnNoise(layers.Layer):
    def __init__(self):
        super().__init__()
        self.seeds = keras.random.SeedGenerator(5)

    def call(self, inputs, training=False):
        if not training:
            return inputs
        scale = keras.random.uniform((ops.shape(inputs)[0], 1), 0.8, 1.2, dtype=inputs.dtype, seed=self.seeds)
        return inputs * scale + 0.1 * keras.random.normal(ops.shape(inputs), dtype=inputs.dtype, seed=self.seeds)


class SeededNoise(layers.Layer):
    """Draws with functions of TensorFlow's that the script has seeded."""

    def call(self, inputs, training=False):
        if not training:
            return inputs
        scale = tf.random.uniform((tf.shape(inputs)[0], 1), 0.8, 1.2, dtype=inputs.dtype, seed=4)
        return inputs * scale + 0.1 * tf.random.normal(tf.shape(inputs), dtype=inputs.dtype)


class GeneratorNoise(layers.Layer):
    """Draws with a generator of TensorFlow's."""

    def __init__(self):
        super().__init__()
        self.generator = tf.random.Generator.from_seed(8)

    def call(self, inputs, training=False):
        if not training:
            return inputs
        shift = 0.1 * self.generator.normal([inputs.shape[-1]], dtype=inputs.dtype)
        return inputs + shift + 0.1 * self.generator.truncated_normal(tf.shape(inputs), dtype=inputs.dtype)


class Sampling(layers.Layer):
    """What a variational autoencoder does, with its Kullback-Leibler loss."""

    def __init__(self):
        super().__init__()
        self.mean, self.spread = layers.Dense(6), layers.Dense(6)
        self.seeds = keras.random.SeedGenerator(6)

    def call(self, inputs):
        mean, spread = self.mean(inputs), 0.1 * self.spread(inputs)
        self.add_loss(-0.01 * ops.mean(1.0 + spread - ops.square(mean) - ops.exp(spread)))
        noise = keras.random.normal(ops.shape(mean), dtype=mean.dtype, seed=self.seeds)
        return mean + ops.exp(0.5 * spread) * noise


class Folded(layers.Layer):
    """Works on halves of rows as if they were rows, with dropout."""

    def __init__(self):
        super().__init__()
        self.dense, self.dropout = layers.Dense(3, activation="tanh"), layers.Dropout(0.3, seed=7)

    def call(self, inputs, training=False):
        rows = ops.reshape(inputs, (-1, 3))
        return ops.reshape(self.dropout(self.dense(rows), training=training), (-1, 6))


class FoldedTime(layers.Layer):
    """Time steps as if they were samples."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def build(self, shape):
        self.inner.build((None, shape[-1]))

    def call(self, inputs, training=False):
        shape = ops.shape(inputs)
        rows = ops.reshape(inputs, (shape[0] * shape[1], shape[2]))
        return ops.reshape(self.inner(rows, training=training), shape)


class TimeFirst(layers.Layer):
    """Goes through time as the first dimension, with noise."""

    def __init__(self):
        super().__init__()
        self.noise, self.dense = layers.GaussianNoise(0.2, seed=9), layers.Dense(4, activation="tanh")

    def call(self, inputs, training=False):
        moved = ops.transpose(inputs, (1, 0, 2))
        return ops.transpose(self.dense(self.noise(moved, training=training)), (1, 0, 2))


class Block(layers.Layer):
    """A transformer's block."""

    def __init__(self):
        super().__init__()
        self.attention = layers.MultiHeadAttention(2, 3, use_bias=False, dropout=0.2, seed=8)
        self.norms = [layers.LayerNormalization(), layers.LayerNormalization()]
        inner = [layers.Dense(8, activation="gelu"), layers.Dropout(0.1, seed=3), layers.Dense(4)]
        self.dense = keras.Sequential(inner)

    def call(self, inputs, training=False):
        x = self.norms[0](inputs)
        x = inputs + self.attention(x, x, use_causal_mask=True, training=training)
        return x + self.dense(self.norms[1](x), training=training)


def sample_errors(y_true, y_pred):
    """A value a sample."""
    return ops.mean(ops.square(ops.cast(y_true, y_pred.dtype) - y_pred), axis=-1)


def mean_of_errors(y_true, y_pred):
    return ops.mean(ops.square(ops.cast(y_true, y_pred.dtype) - y_pred))


def sum_of_errors(y_true, y_pred):
    return 0.01 * ops.sum(ops.square(ops.cast(y_true, y_pred.dtype) - y_pred))


def largest_error(y_true, y_pred):
    return ops.max(ops.abs(ops.cast(y_true, y_pred.dtype) - y_pred))


def error_of_means(y_true, y_pred):
    """Couples the samples."""
    return ops.mean(ops.square(ops.mean(ops.cast(y_true, y_pred.dtype) - y_pred, axis=0)))


def valid_mean(y_true, y_pred):
    """Of the labels that are not below -1."""
    labels = ops.cast(y_true, y_pred.dtype)
    valid = ops.cast(labels > -1.0, y_pred.dtype)
    return ops.sum(ops.square(labels - y_pred) * valid) / ops.maximum(ops.sum(valid), 1.0)


def loss_of_variances(y_true, y_pred):
    errors = ops.mean(ops.square(ops.cast(y_true, y_pred.dtype) - y_pred))
    return errors + ops.mean(ops.square(1.0 - ops.var(y_pred, axis=0)))


def sum_over_pairs(y_true, y_pred):
    apart = ops.cast(y_true, y_pred.dtype) - y_pred
    return 0.01 * ops.sum(ops.square(ops.matmul(apart, ops.transpose(apart))))


def spread_of_batch(y_true, y_pred):
    return ops.std(y_pred)


def clip_loss(y_true, y_pred):
    """Which of the batch's second halves belongs to a first half: a value a sample."""
    logits = 2.0 * ops.matmul(y_pred[:, :3], ops.transpose(y_pred[:, 3:]))
    labels = ops.arange(ops.shape(logits)[0])
    sides = (logits, ops.transpose(logits))
    return sum(keras.losses.sparse_categorical_crossentropy(labels, side, from_logits=True) for side in sides)


def simclr_loss(y_true, y_pred):
    views = ops.concatenate([y_pred[:, :3], y_pred[:, 3:]])
    count = ops.shape(views)[0]
    alike = ops.matmul(views, ops.transpose(views)) * 2.0 - 1e4 * ops.eye(count, dtype=views.dtype)
    partner = ops.mod(ops.arange(count) + count // 2, count)
    return ops.mean(keras.losses.sparse_categorical_crossentropy(partner, alike, from_logits=True))


def ranking_loss(y_true, y_pred):
    """Over all pairs of the batch."""
    target, score = ops.cast(y_true, y_pred.dtype)[:, :1], y_pred[:, :1]
    ahead = ops.cast(target > ops.transpose(target), y_pred.dtype)
    return ops.sum(ops.softplus(ops.transpose(score) - score) * ahead) / (ops.sum(ahead) + 1.0)


class WeighedErrors(keras.losses.Loss):
    def call(self, y_true, y_pred):
        return ops.sum(ops.abs(ops.cast(y_true, y_pred.dtype) - y_pred) * ops.exp(-ops.abs(y_pred)), axis=-1)


class StopsAt(keras.callbacks.Callback):
    def __init__(self, batches):
        super().__init__()
        self.left = batches

    def on_train_batch_end(self, batch, logs=None):
        self.left -= 1
        if self.left == 0:
            self.model.stop_training = True


class SeesLogs(keras.callbacks.Callback):
    """Puts the logs of batches into those of their epoch."""

    def on_epoch_begin(self, epoch, logs=None):
        self.seen = {}

    def on_train_batch_end(self, batch, logs=None):
        self.seen.update({f"{name} of batch {batch}": value for name, value in (logs or {}).items()})

    def on_test_batch_end(self, batch, logs=None):
        self.seen.update({f"val_{name} of batch {batch}": value for name, value in (logs or {}).items()})

    def on_epoch_end(self, epoch, logs=None):
        logs.update(self.seen)


def recomputed(make):
    with keras.RematScope("full"):
        return make()


class Batches(keras.utils.PyDataset):
    def __init__(self, batch, *parts, **options):
        super().__init__(**options)
        self.batch, self.parts = batch, parts

    def __len__(self):
        return -(-len(keras.tree.flatten(self.parts)[0]) // self.batch)

    def __getitem__(self, index):
        part = slice(index * self.batch, (index + 1) * self.batch)
        return keras.tree.map_structure(lambda values: values[part], self.parts)


def forever(batches):
    while True:
        yield from (batches[index] for index in range(len(batches)))
