"""Layers that draw random numbers: dropout, noise, augmentation."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tests.exactness.precision_cases import FLOAT32
from tests.exactness.table import BATCH, ONLY_TRAINED, case, fitted, fitted_on, numbers, token_classifier, tokens

layers = keras.layers


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
    model = token_classifier(
        layers.Bidirectional(layers.GRU(3, dropout=0.3, return_sequences=True)),
        layers.LSTM(4, dropout=0.2, recurrent_dropout=0.3),
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


@case("`Dropout` with a `noise_shape` and `SpatialDropout` with `run_eagerly`")
def noise_shapes_that_run_eagerly(samples: int) -> dict[str, Any]:
    """Of 12 units: a multiple of the rows of many a replica."""
    model = keras.Sequential(
        [
            keras.Input((6,)),
            layers.Dense(12, activation="tanh"),
            layers.Dropout(0.3, noise_shape=(1, 12), seed=3),
            layers.Reshape((4, 3)),
            layers.SpatialDropout1D(0.2, seed=4),
            layers.Dropout(0.3, noise_shape=(None, 4, 1), seed=5),
            layers.Flatten(),
            layers.Dense(3, activation="softmax"),
        ]
    )
    return fitted(model, *numbers(samples), {"run_eagerly": True}) | ONLY_TRAINED


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


@keras.saving.register_keras_serializable("tfdist.tests")
class Equalized(layers.Layer):
    """Equalizes images: Keras leaves `Equalization` out of models that it builds of calls of layers."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.equalize = layers.Equalization(value_range=(0.0, 1.0))

    def call(self, images: tf.Tensor, training: bool = False) -> tf.Tensor:
        return self.equalize(images, training=training)


@case("`Equalization`, by the pixels of all images of a batch", FLOAT32)
def images_equalized_by_their_batch(samples: int) -> dict[str, Any]:
    x, y = numbers(samples, features=48)
    # The images become brighter from the first to the last.
    x = np.linspace(0.2, 1.0, samples)[:, None] * (np.tanh(x) + 1) / 2
    flat = [layers.Flatten(), layers.Dense(3, activation="softmax")]
    return fitted(keras.Sequential([keras.Input((4, 4, 3)), Equalized(), *flat]), x.reshape(-1, 4, 4, 3), y)
