"""Random numbers: those of layers, and those that layers and steps of one's own draw."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tests.exactness.precision_cases import FLOAT32
from tests.exactness.table import BATCH, NOT_EVALUATED, ONLY_TRAINED, case, fitted, fitted_on, numbers, tokens

layers = keras.layers
random = keras.random


@case("`Dropout`")
def dropout(samples: int) -> dict[str, Any]:
    return fitted(_dropped(layers.Dropout(0.3, seed=3)), *numbers(samples))


@case("`Dropout` with a `noise_shape`, `SpatialDropout`, `GaussianNoise`, `GaussianDropout`, `AlphaDropout`")
def kinds_of_noise(samples: int) -> dict[str, Any]:
    x, y = numbers(samples, features=20)
    model = keras.Sequential(
        [
            keras.Input((5, 4)),
            layers.Dense(3),
            layers.SpatialDropout1D(0.3),
            layers.Dropout(0.3, noise_shape=(None, 1, 3)),
            layers.GaussianNoise(0.2),
            layers.Dropout(0.3, noise_shape=(1, 5, 3)),
            layers.GaussianDropout(0.2),
            layers.AlphaDropout(0.2),
            layers.Flatten(),
            layers.Dense(3, activation="softmax"),
        ]
    )
    return fitted(model, x.reshape(-1, 5, 4), y)


@case("noise behind a dense layer of sparse rows")
def noise_of_sparse_rows(samples: int) -> dict[str, Any]:
    """Keras looks up the columns that occur, a number that depends on the data; the rows do not."""
    x, y = numbers(samples)
    x[np.abs(x) < 0.5] = 0.0
    model = keras.Sequential(
        [
            keras.Input((6,), sparse=True),
            layers.Dense(6, activation="tanh"),
            layers.BatchNormalization(),
            layers.AlphaDropout(0.3, seed=3),
            layers.Dense(3, activation="softmax"),
        ]
    )
    data = tf.data.Dataset.from_tensor_slices((tf.sparse.from_dense(x), y))
    return fitted_on(model, data.batch(BATCH)) | ONLY_TRAINED


@case("`dropout` and `recurrent_dropout` of recurrent layers, with masks")
def recurrent_dropout(samples: int) -> dict[str, Any]:
    ids = tokens(samples)
    model = keras.Sequential(
        [
            keras.Input((7,)),
            layers.Embedding(20, 4, mask_zero=True),
            layers.Bidirectional(layers.GRU(3, dropout=0.3, return_sequences=True)),
            layers.LSTM(4, dropout=0.2, recurrent_dropout=0.3),
            layers.Dense(3, activation="softmax"),
        ]
    )
    return fitted(model, ids, ids.sum(-1) % 3)


@case("dropout of attention, over sequences of any length")
def dropout_of_attention(samples: int) -> dict[str, Any]:
    x, y = numbers(samples, features=20)
    inputs = keras.Input((None, 4))
    attended = layers.MultiHeadAttention(2, 3, dropout=0.3)(inputs, inputs)
    hidden = layers.Dropout(0.2)(layers.Dense(5, activation="tanh")(attended))
    outputs = layers.Dense(3, activation="softmax")(layers.GlobalAveragePooling1D()(hidden))
    return fitted(keras.Model(inputs, outputs), x.reshape(-1, 5, 4), y)


@case("one mask for all samples, as long as the sequences of a batch are")
def dropout_of_time_steps(samples: int) -> dict[str, Any]:
    x, y = numbers(samples, features=20)
    data = tf.data.Dataset.from_tensor_slices((x.reshape(-1, 5, 4), y))
    data = data.map(lambda steps, label: (steps[: 2 + label], label)).padded_batch(32, ([None, 4], []))
    inputs = keras.Input((None, 4))
    hidden = layers.Dropout(0.3, noise_shape=(1, None, 5))(layers.Dense(5, activation="tanh")(inputs))
    hidden = layers.Dropout(0.2)(hidden)
    outputs = layers.Dense(3, activation="softmax")(layers.GlobalAveragePooling1D()(hidden))
    return fitted_on(keras.Model(inputs, outputs), data)


@case("layers of augmentation, geometric", FLOAT32)
def geometric_augmentation(samples: int) -> dict[str, Any]:
    return _augmented(
        samples,
        layers.RandomFlip(),
        layers.RandomRotation(0.2),
        layers.RandomTranslation(0.2, 0.2),
        layers.RandomZoom(0.2),
        layers.RandomShear(0.2, 0.2),
        layers.RandomPerspective(0.5),
        layers.RandomErasing(),
    )


@case("layers of augmentation, of colours", FLOAT32)
def augmentation_of_colors(samples: int) -> dict[str, Any]:
    options = {"value_range": (0, 1)}
    return _augmented(
        samples,
        layers.RandomBrightness(0.2, **options),
        layers.RandomContrast(0.3, **options),
        layers.RandomHue(0.2, **options),
        layers.RandomSaturation(0.3, **options),
        layers.RandomSharpness(0.3, **options),
        layers.RandomGrayscale(0.4),
        layers.RandomColorDegeneration(0.4, **options),
        layers.RandomGaussianBlur(0.5, **options),
        layers.RandomInvert(0.4, **options),
    )


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


@case("dropout that stays on in `evaluate` and `predict`")
def dropout_of_every_call(samples: int) -> dict[str, Any]:
    inputs = keras.Input((6,))
    dropped = layers.Dropout(0.3)(layers.Dense(8, activation="tanh")(inputs), training=True)
    return fitted(keras.Model(inputs, layers.Dense(3, activation="softmax")(dropped)), *numbers(samples))


@case("dropout with gradient accumulation")
def dropout_and_accumulation(samples: int) -> dict[str, Any]:
    optimizer = keras.optimizers.SGD(0.1, gradient_accumulation_steps=2)
    return fitted(_dropped(layers.Dropout(0.3)), *numbers(samples), {"optimizer": optimizer})


@case("dropout with `steps_per_execution`")
def dropout_and_several_steps(samples: int) -> dict[str, Any]:
    return fitted(_dropped(layers.Dropout(0.3)), *numbers(samples), {"steps_per_execution": 2})


@case("dropout with `run_eagerly`")
def dropout_that_runs_eagerly(samples: int) -> dict[str, Any]:
    return fitted(_dropped(layers.Dropout(0.3)), *numbers(samples), {"run_eagerly": True})


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


@case("dropout of batches of a fixed size, and by `train_on_batch`")
def dropout_of_fixed_batches(samples: int) -> dict[str, Any]:
    x, y = numbers(samples)
    model = _dropped(layers.Dropout(0.3))
    data = tf.data.Dataset.from_tensor_slices((x, y)).batch(32, drop_remainder=True)
    made = fitted_on(model, data, x)
    losses = [model.train_on_batch(x[begin : begin + 7], y[begin : begin + 7]) for begin in (0, 7, 14)]
    return made | {"seen": [float(np.ravel(loss)[0]) for loss in losses], **ONLY_TRAINED}


@case("dropout in float32", FLOAT32)
def dropout_in_float32(samples: int) -> dict[str, Any]:
    return fitted(_dropped(layers.Dropout(0.3)), *numbers(samples))


def _between(layer: layers.Layer, width: int) -> keras.Model:
    return keras.Sequential(
        [keras.Input((6,)), layers.Dense(width), layer, layers.Dense(3, activation="softmax")]
    )


def _dropped(dropout: layers.Layer) -> keras.Model:
    """Of 7 units, so that no replica's rows begin with a block of the generator."""
    return keras.Sequential(
        [keras.Input((6,)), layers.Dense(7, activation="tanh"), dropout, layers.Dense(3, activation="softmax")]
    )


def _augmented(samples: int, *augmentations: layers.Layer) -> dict[str, Any]:
    generator = np.random.default_rng(5)
    x, y = generator.uniform(size=(samples, 8, 8, 3)), generator.integers(0, 3, samples)
    model = keras.Sequential(
        [keras.Input((8, 8, 3)), *augmentations, layers.Flatten(), layers.Dense(3, activation="softmax")]
    )
    return fitted(model, x, y)


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
