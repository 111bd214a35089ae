"""Random numbers that layers and steps of one's own draw."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from tests.exactness.table import NOT_EVALUATED, ONLY_TRAINED, case, fitted, fitted_on, numbers

layers = keras.layers
random = keras.random


@case("layers with a `SeedGenerator` of their own, every function of `keras.random`")
def layer_that_draws(samples: int) -> dict[str, Any]:
    @keras.saving.register_keras_serializable()
    class Draws(layers.Layer):
        def __init__(self, **options: Any) -> None:
            super().__init__(**options)
            self.seed = random.SeedGenerator(5)
            self.slope = self.add_weight((6,), "ones", name="slope")

        def call(self, x: Any) -> Any:
            shape, rows = keras.ops.shape(x), keras.ops.shape(x)[0]
            x = x * random.uniform(shape, 0.5, 1.5, seed=self.seed) + random.normal(shape, 0.1, 0.2, seed=self.seed)
            x += random.truncated_normal((rows, 6), stddev=0.3, seed=self.seed)
            x += keras.ops.cast(random.randint((rows, 1), 0, 5, seed=self.seed), x.dtype) / 10
            x = random.dropout(x, 0.2, seed=self.seed)
            x *= random.gamma(shape, keras.ops.abs(x) + 0.5, seed=self.seed)
            x += random.beta(shape, 2.0, 3.0, seed=self.seed)
            x += random.binomial(shape, 4.0, 0.3, seed=self.seed) / 10
            x += keras.ops.cast(random.categorical(x, 6, seed=self.seed), x.dtype) / 10
            # Of a fixed shape, one for the whole batch.
            return keras.ops.tanh(x * self.slope + random.normal((6,), seed=self.seed))

    return fitted(_between(Draws(), 6), *numbers(samples))


@case("draws where the batch is the second dimension, or folded with another one")
def draws_of_other_dimensions(samples: int) -> dict[str, Any]:
    class Folded(layers.Layer):
        def __init__(self, **options: Any) -> None:
            super().__init__(**options)
            self.seed = random.SeedGenerator(5)

        def call(self, x: Any) -> Any:
            ops = keras.ops
            folded = ops.reshape(x, (-1, 2))
            folded += random.normal(ops.shape(folded), stddev=0.3, seed=self.seed)
            x = ops.reshape(folded, (-1, 6))
            across = ops.transpose(x)
            across *= random.uniform((6, ops.shape(x)[0]), 0.5, 1.5, seed=self.seed)
            across += random.truncated_normal(ops.shape(across), stddev=0.2, seed=self.seed)
            across += ops.cast(random.randint(ops.shape(across), 0, 3, seed=self.seed), x.dtype) / 5
            across += random.gamma(ops.shape(across), ops.abs(across) + 1, seed=self.seed) / 10
            return ops.transpose(across)

    return fitted(_between(Folded(), 6), *numbers(samples))


@case("a recurrent cell that draws at each step of sequences of any length; draws in loops and branches")
def draws_in_loops_and_branches(samples: int) -> dict[str, Any]:
    class NoisyCell(layers.Layer):
        def __init__(self) -> None:
            super().__init__()
            self.state_size, self.output_size, self.seed = 4, 4, random.SeedGenerator(2)
            self.hidden = layers.Dense(4)

        def build(self, shape: Any) -> None:
            self.hidden.build(shape)

        def call(self, x: Any, states: Any) -> Any:
            noise = random.normal(keras.ops.shape(x), stddev=0.3, seed=self.seed)
            state = keras.ops.tanh(self.hidden(x) + states[0] + noise)
            return state, [state]

    class Walk(keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.seed = random.SeedGenerator(5)
            self.steps, self.outputs = layers.RNN(NoisyCell()), layers.Dense(3, activation="softmax")

        def call(self, x: Any) -> Any:
            noisy = lambda x: x + random.normal(keras.ops.shape(x), stddev=0.1, seed=self.seed)  # noqa: E731
            x = keras.ops.fori_loop(0, 3, lambda _, x: noisy(x), self.steps(x))
            chosen = random.uniform((), seed=self.seed) < 0.5
            return self.outputs(keras.ops.cond(chosen, lambda: noisy(x), lambda: x))

    x, y = numbers(samples, features=20)
    data = tf.data.Dataset.from_tensor_slices((x.reshape(-1, 5, 4), y))
    data = data.map(lambda steps, label: (steps[: 2 + label], label)).padded_batch(32, ([None, 4], []))
    return fitted_on(Walk(), data)


@case("`keras.random.shuffle` of the rows of a batch")
def shuffled_rows(samples: int) -> dict[str, Any]:
    class Mixed(layers.Layer):
        def __init__(self, **options: Any) -> None:
            super().__init__(**options)
            self.seed = random.SeedGenerator(5)

        def call(self, x: Any) -> Any:
            return 0.8 * x + 0.2 * random.shuffle(x, seed=self.seed)

    return fitted(_between(Mixed(), 6), *numbers(samples))


@case("a variational autoencoder: a `train_step` of one's own that samples")
def variational_autoencoder(samples: int) -> dict[str, Any]:
    class Autoencoder(keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.encoder = keras.Sequential([keras.Input((6,)), layers.Dense(4, activation="tanh"), layers.Dense(4)])
            self.decoder = keras.Sequential([keras.Input((2,)), layers.Dense(4, activation="tanh"), layers.Dense(6)])
            self.seed = random.SeedGenerator(5)
            self.total = keras.metrics.Mean(name="total")

        @property
        def metrics(self) -> list[Any]:
            return [self.total]

        def train_step(self, data: Any) -> dict[str, Any]:
            with tf.GradientTape() as tape:
                mean, spread = keras.ops.split(self.encoder(data), 2, axis=-1)
                noise = random.normal((keras.ops.shape(mean)[0], 2), seed=self.seed)
                rebuilt = self.decoder(mean + keras.ops.exp(0.5 * spread) * noise)
                loss = keras.ops.mean(keras.ops.sum(keras.ops.square(data - rebuilt), axis=-1))
                loss -= 0.5 * keras.ops.mean(1 + spread - keras.ops.square(mean) - keras.ops.exp(spread))
            variables = self.trainable_weights
            self.optimizer.apply(tape.gradient(loss, variables), variables)
            self.total.update_state(loss)
            return {"total": self.total.result()}

    model = Autoencoder()
    model.compile(optimizer=keras.optimizers.SGD(0.02, momentum=0.9))
    x, _ = numbers(samples)
    history = model.fit(x, batch_size=32, epochs=3, verbose=0)
    return {"model": model, "x": x, "history": history.history, **ONLY_TRAINED}


@case("a `train_step` of one's own with `run_eagerly`, every function of `keras.random`")
def every_draw_that_runs_eagerly(samples: int) -> dict[str, Any]:
    class NoisySteps(keras.Sequential):
        def train_step(self, data: Any) -> Any:
            x, y = data
            seed, shape, rows = self.seed, keras.ops.shape(x), keras.ops.shape(x)[0]
            x = x * random.uniform(shape, 0.5, 1.5, seed=seed) + random.normal(shape, 0.1, 0.2, seed=seed)
            x += random.truncated_normal((rows, 6), stddev=0.3, seed=seed)
            x += keras.ops.cast(random.randint((rows, 1), 0, 5, seed=seed), x.dtype) / 10
            x = random.dropout(x, 0.2, seed=seed)
            x *= random.gamma(shape, keras.ops.abs(x) + 0.5, seed=seed)
            x += random.beta(shape, 2.0, 3.0, seed=seed)
            x += random.binomial(shape, 4.0, 0.3, seed=seed) / 10
            x += keras.ops.cast(random.categorical(x, 6, seed=seed), x.dtype) / 10
            return super().train_step((x, y))

    model = NoisySteps([keras.Input((6,)), layers.Dense(7, activation="tanh"), layers.Dense(3, activation="softmax")])
    model.seed = random.SeedGenerator(5)
    return fitted(model, *numbers(samples), {"run_eagerly": True}) | ONLY_TRAINED


@case("a layer that draws with `run_eagerly`")
def draws_that_run_eagerly(samples: int) -> dict[str, Any]:
    class Noisy(layers.Layer):
        def __init__(self, **options: Any) -> None:
            super().__init__(**options)
            self.seed = random.SeedGenerator(5)

        def call(self, x: Any) -> Any:
            rows = keras.ops.shape(x)[0]
            x = x + random.normal((rows, 7), seed=self.seed) + random.normal((7,), seed=self.seed)
            return x * keras.ops.reshape(random.uniform((7 * rows,), seed=self.seed), (rows, 7))

    return fitted(_between(Noisy(), 7), *numbers(samples), {"run_eagerly": True})


@case("dropout and a layer that draws with `jit_compile=True`")
def dropout_that_xla_compiles(samples: int) -> dict[str, Any]:
    class Noisy(layers.Layer):
        def __init__(self, **options: Any) -> None:
            super().__init__(**options)
            self.seed = random.SeedGenerator(5)

        def call(self, x: Any) -> Any:
            shape = keras.ops.shape(x)
            return x + random.normal(shape, seed=self.seed) + random.truncated_normal(shape, seed=self.seed)

    model = keras.Sequential([keras.Input((6,)), layers.Dense(7), layers.Dropout(0.3), Noisy(), layers.Dense(3)])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    return fitted(model, *numbers(samples), {"jit_compile": True, "loss": loss}) | NOT_EVALUATED


def _between(layer: layers.Layer, width: int) -> keras.Model:
    return keras.Sequential(
        [keras.Input((6,)), layers.Dense(width), layer, layers.Dense(3, activation="softmax")]
    )


class Shuffling(keras.Model):
    """Mixes its inputs with those of another order in its step, and calls a layer that mixes and draws by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.seed, self.mixing, self.head = random.SeedGenerator(5), DrawsAndMixes(), layers.Dense(3)

    def call(self, x: Any, training: bool = False) -> Any:
        return self.head(self.mixing(x))

    def train_step(self, data: Any) -> dict[str, Any]:
        x, y = data
        x = 0.8 * x + 0.2 * random.shuffle(x, seed=self.seed)
        with tf.GradientTape() as tape:
            loss = keras.ops.mean(keras.ops.square(self(x, training=True) - keras.ops.one_hot(y, 3, dtype=x.dtype)))
        self.optimizer.apply(tape.gradient(loss, self.trainable_variables), self.trainable_variables)
        return {"total": loss}


class DrawsAndMixes(layers.Layer):
    """Couples the samples of a batch, so that it is called with those of all replicas, and draws for each of them."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.seed = random.SeedGenerator(6)

    def call(self, x: Any) -> Any:
        noise = random.normal(keras.ops.shape(x), seed=self.seed)
        return random.dropout(x - keras.ops.mean(x, axis=0), 0.3, seed=self.seed) + 0.1 * noise


@case("a shuffle along the batch, and draws of a layer that is gathered, with `jit_compile=True`")
def gathered_draws_that_xla_compiles(samples: int) -> dict[str, Any]:
    return fitted(Shuffling(), *numbers(samples), {"jit_compile": True}) | ONLY_TRAINED
