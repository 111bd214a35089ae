"""Random numbers of `tf.random.stateless_*` and what stands on it, and of `tf.random` with the seed of a script."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from tests.exactness.table import ONLY_TRAINED, case, fitted, fitted_on, numbers

layers, random = keras.layers, keras.random


@case("`tf.random.stateless_*` in the `call` of a model of one's own, every function")
def stateless_draws(samples: int) -> dict[str, Any]:
    return fitted(StatelessNoise(), *numbers(samples))


@case("`tf.random.stateless_*` along other dimensions, and of time steps")
def stateless_draws_of_other_dimensions(samples: int) -> dict[str, Any]:
    class Noisy(keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.hidden, self.outputs = layers.Dense(4), layers.Dense(3, activation="softmax")

        def call(self, x: Any) -> Any:
            x = self.hidden(x)
            rows, steps, dtype = tf.shape(x)[0], tf.shape(x)[1], x.dtype
            x += tf.random.stateless_normal((steps, 4), (1, 2), dtype=dtype)
            x *= tf.random.stateless_uniform(tf.stack([1, steps, 1]), (1, 3), 0.5, 1.5, dtype=dtype)
            x += tf.random.stateless_normal(tf.concat([tf.shape(x)[:1], [1], tf.shape(x)[-1:]], 0), (1, 4), dtype=dtype)
            along = tf.random.stateless_gamma((4, rows), (1, 5), alpha=2.0 + tf.abs(x[:, 0, 0]), dtype=dtype)
            along += tf.cast(tf.random.stateless_poisson((4, rows), (1, 6), lam=tf.abs(x[:, 1, 1])), dtype)
            return self.outputs(tf.reduce_mean(x, 1) + tf.transpose(along) / 5)

    x, y = numbers(samples, features=20)
    data = tf.data.Dataset.from_tensor_slices((x.reshape(-1, 5, 4), y))
    data = data.map(lambda steps, label: (steps[: 2 + label], label)).padded_batch(32, ([None, 4], []))
    return fitted_on(Noisy(), data)


@case("`tf.random.stateless_*`, `stateless_dropout`, `tf.image.stateless_*` in a loss and a `train_step` of one's own")
def stateless_draws_of_steps(samples: int) -> dict[str, Any]:
    class Stepping(keras.Sequential):
        def train_step(self, data: Any) -> dict[str, Any]:
            x, y = data
            seed = tf.stack([tf.cast(self.optimizer.iterations.value, tf.int32), 3])
            seeds = tf.random.split(seed, 3)
            images = tf.image.stateless_random_flip_left_right(tf.reshape(x, (-1, 2, 3, 1)), seeds[0])
            images = tf.image.stateless_random_brightness(images, 0.2, seeds[1])
            x = tf.nn.experimental.stateless_dropout(tf.reshape(images, (-1, 6)), 0.3, seeds[2])
            x += 0.1 * tf.random.experimental.stateless_shuffle(x, tf.random.fold_in(seed, 4))
            with tf.GradientTape() as tape:
                loss = self.compute_loss(x, y, self(x, training=True))
            variables = self.trainable_weights
            self.optimizer.apply(tape.gradient(loss, variables), variables)
            return {"loss": loss}

    def noisy_crossentropy(y: Any, p: Any) -> Any:
        p *= tf.random.stateless_uniform(tf.shape(p), (1, 2), 0.5, 1.0, dtype=p.dtype)
        return keras.losses.sparse_categorical_crossentropy(y, p)

    model = Stepping([keras.Input((6,)), layers.Dense(7, activation="tanh"), layers.Dense(3, activation="softmax")])
    return fitted(model, *numbers(samples), {"loss": noisy_crossentropy})


class StatelessNoise(keras.Model):
    """Draws in its call, outside of layers."""

    def __init__(self) -> None:
        super().__init__()
        self.seed = random.SeedGenerator(5)
        self.hidden, self.outputs = layers.Dense(6), layers.Dense(3, activation="softmax")

    def call(self, x: Any) -> Any:
        return self.outputs(keras.ops.tanh(self.noisy(self.hidden(x))))

    def noisy(self, x: Any) -> Any:
        draws, dtype = tf.random, x.dtype
        shape, rows = tf.shape(x), tf.shape(x)[0]
        # One seed a step, and one a draw.
        seeds = tf.unstack(draws.split(tf.cast(self.seed.next() % 1000, "int32"), 12), num=12)
        x = x * draws.stateless_uniform(shape, seeds[0], 0.5, 1.5, dtype)
        x += draws.stateless_normal(shape, seeds[1], 0.1, 0.2, dtype)
        x += draws.stateless_normal((6,), seeds[2], dtype=dtype)
        x += draws.stateless_truncated_normal((rows, 6), seeds[3], stddev=0.3, dtype=dtype)
        x += tf.cast(draws.stateless_uniform((rows, 1), seeds[4], 0, 5, tf.int32), dtype) / 10
        bits = draws.stateless_uniform((rows, 3), seeds[5], None, None, tf.uint64)
        x += tf.cast(tf.tile(bits % 7, (1, 2)), dtype) / 10
        x += tf.cast(draws.stateless_uniform(shape, seeds[6], None, None, tf.int32) % 7, dtype) / 10
        x *= draws.stateless_gamma(shape, seeds[7], tf.abs(x) + 0.5, beta=2.0, dtype=dtype)
        x += draws.stateless_gamma(shape, seeds[7], alpha=[0.5, 1.0, 2.0, 3.0, 4.0, 5.0], dtype=dtype)
        x += draws.stateless_binomial(shape, seeds[8], 4.0, tf.sigmoid(x), dtype) / 10
        x += draws.stateless_poisson(shape, seeds[9], 2.0, dtype) / 10
        x += draws.stateless_parameterized_truncated_normal(shape, seeds[10], x, tf.ones_like(x[0]), x - 1.0, x + 1.0)
        return x + tf.cast(draws.stateless_categorical(x, 6, seeds[11]), dtype) / 10


class SeededNoise(keras.Model):
    """Draws with every function of `tf.random` whose numbers are known, for the rows of a batch and for all of them."""

    def __init__(self) -> None:
        super().__init__()
        self.hidden, self.outputs = layers.Dense(4), layers.Dense(3, activation="softmax")

    def call(self, x: Any) -> Any:
        x = tf.nn.dropout(self.hidden(x), 0.3) + tf.random.normal([4], dtype=x.dtype)
        shape, rows = tf.shape(x), tf.shape(x)[0]
        x += tf.random.normal(shape, seed=5, dtype=x.dtype)
        x *= tf.random.uniform([rows, 1], 0.5, 1.5, dtype=x.dtype)
        x += tf.random.truncated_normal(shape, dtype=x.dtype)
        x += tf.cast(tf.random.uniform(shape, 0, 5, tf.int32), x.dtype) / 10
        x += tf.random.gamma([rows], [0.5, 1.0, 2.0, 3.0], dtype=x.dtype) / 10
        return self.outputs(tf.tanh(x))


@case("`tf.random` with the seed of a script, every function, in training and validation")
def seeded_draws(samples: int) -> dict[str, Any]:
    tf.random.set_seed(7)
    x, y = numbers(samples)
    return fitted(SeededNoise(), x, y, validation_data=(x[:21], y[:21])) | ONLY_TRAINED


@case("samples mixed by a seeded `tf.random.shuffle`, of rows and of their numbers, in a `train_step` of one's own")
def seeded_shuffles(samples: int) -> dict[str, Any]:
    class Mixing(keras.Sequential):
        def train_step(self, data: Any) -> dict[str, Any]:
            x, y = data
            other = tf.random.shuffle(tf.range(tf.shape(x)[0]), seed=3)
            kept = tf.random.uniform([], seed=4, dtype=x.dtype)
            y = tf.one_hot(y, 3, dtype=x.dtype)
            x, y = kept * x + (1 - kept) * tf.gather(x, other), kept * y + (1 - kept) * tf.gather(y, other)
            with tf.GradientTape() as tape:
                hidden = self.layers[0](x)
                predicted = self.layers[1](0.8 * hidden + 0.2 * tf.random.shuffle(hidden))
                loss = tf.reduce_mean(tf.square(predicted - y))
            self.optimizer.apply(tape.gradient(loss, self.trainable_weights), self.trainable_weights)
            return {"mixed": loss}

    tf.random.set_seed(7)
    model = Mixing([keras.Input((6,)), layers.Dense(5, activation="tanh"), layers.Dense(3)])
    return fitted(model, *numbers(samples)) | ONLY_TRAINED


class NoiseOfGenerators(layers.Layer):
    """Draws by a generator of its own and by another one that lies outside of the model."""

    def __init__(self, other: tf.random.Generator) -> None:
        super().__init__()
        self.own = tf.random.Generator.from_seed(5)
        self.other = other

    def call(self, x: Any) -> Any:
        shape, rows = tf.shape(x), tf.shape(x)[0]
        x += self.own.normal(shape, dtype=x.dtype) + self.other.truncated_normal(shape, dtype=x.dtype)
        x *= self.own.uniform([rows, 1], 0.5, 1.5, dtype=x.dtype)
        x += tf.cast(self.other.uniform([rows, 1], 0, 5, tf.int32), x.dtype) / 10
        return tf.tanh(x + self.own.normal([4], dtype=x.dtype))


@case("a `tf.random.Generator` that a layer makes, and one from outside of the strategy's scope")
def generators(samples: int) -> dict[str, Any]:
    with tf.init_scope():
        other = tf.random.Generator.from_seed(9)
    noise = NoiseOfGenerators(other)
    model = keras.Sequential([keras.Input((6,)), layers.Dense(4), noise, layers.Dense(3, activation="softmax")])
    x, y = numbers(samples)
    return fitted(model, x, y, validation_data=(x[:21], y[:21]))
