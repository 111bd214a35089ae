"""Losses and layers in which the result for a sample depends on the others of its batch."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np

from tests.exactness.table import ONLY_TRAINED, case, fitted, numbers

layers = keras.layers


def embedder(dtype: Any = None) -> keras.Model:
    """Rows of length one."""
    return keras.Sequential(
        [
            keras.Input((6,)),
            layers.Dense(8, activation="tanh", dtype=dtype),
            layers.Dense(4, dtype=dtype),
            layers.UnitNormalization(dtype=dtype),
        ]
    )


def segmenter() -> keras.Model:
    return keras.Sequential(
        [
            keras.Input((4, 4, 1)),
            layers.Conv2D(3, 3, padding="same", activation="tanh"),
            layers.Conv2D(1, 1, activation="sigmoid"),
        ]
    )


def images(samples: int) -> tuple[np.ndarray, np.ndarray]:
    """Images, and which of their pixels are bright."""
    pixels = numbers(samples, features=16)[0].reshape(-1, 4, 4, 1)
    return pixels, (pixels + np.roll(pixels, 1, axis=1) > 0.5).astype(int)


def weights(samples: int) -> np.ndarray:
    return np.random.default_rng(8).exponential(size=samples)


@case("`keras.losses.Circle`")
def circle_loss(samples: int) -> dict[str, Any]:
    return fitted(embedder(), *numbers(samples), {"loss": keras.losses.Circle(gamma=4)})


@case("`keras.losses.Circle` with weights, summed")
def circle_loss_with_weights(samples: int) -> dict[str, Any]:
    loss = keras.losses.Circle(gamma=4, reduction="sum")
    settings = {"loss": loss, "optimizer": keras.optimizers.SGD(0.003)}
    return fitted(embedder(), *numbers(samples), settings, sample_weight=weights(samples))


@case("`keras.losses.Dice`")
def dice_loss(samples: int) -> dict[str, Any]:
    return fitted(segmenter(), *images(samples), {"loss": "dice", "metrics": ["accuracy"]})


@case("`keras.losses.Dice` along the samples, with weights")
def dice_loss_along_the_samples(samples: int) -> dict[str, Any]:
    loss = keras.losses.Dice(axis=(0, 1, 2), reduction="mean_with_sample_weight")
    return fitted(segmenter(), *images(samples), {"loss": loss})


@case("`keras.losses.Tversky`")
def tversky_loss(samples: int) -> dict[str, Any]:
    loss = keras.losses.Tversky(alpha=0.3, beta=0.7)
    return fitted(segmenter(), *images(samples), {"loss": loss}, sample_weight=weights(samples))


@case("`Dice`, `Tversky` and a crossentropy of several outputs, with class weights")
def coupled_losses_of_several_outputs(samples: int) -> dict[str, Any]:
    pixels, bright = images(samples)
    inputs = keras.Input((4, 4, 1))
    hidden = layers.Conv2D(3, 3, padding="same", activation="tanh")(inputs)
    outputs = {
        "overlap": layers.Conv2D(1, 1, activation="sigmoid", name="overlap")(hidden),
        "weighed": layers.Conv2D(1, 1, activation="sigmoid", name="weighed")(hidden),
        "class": layers.Dense(3, activation="softmax", name="class")(layers.Flatten()(hidden)),
    }
    settings = {
        "loss": {"overlap": keras.losses.dice, "weighed": "Tversky", "class": "sparse_categorical_crossentropy"},
        "loss_weights": {"overlap": 1.0, "weighed": 0.3, "class": 2.0},
    }
    targets = {"overlap": bright, "weighed": 1 - bright, "class": numbers(samples)[1]}
    weight = {"overlap": weights(samples), "weighed": weights(samples) ** 2, "class": weights(samples)}
    return fitted(keras.Model(inputs, outputs), pixels, targets, settings, sample_weight=weight)


@case("`Dice` of masked time steps")
def dice_loss_of_masked_steps(samples: int) -> dict[str, Any]:
    x = np.repeat(numbers(samples)[0][:, :, None], 3, axis=2) * [1.0, 2.0, 3.0]
    x[np.arange(6) >= np.random.default_rng(5).integers(1, 7, samples)[:, None]] = 0
    model = keras.Sequential([keras.Input((6, 3)), layers.Masking(), layers.Dense(1, activation="sigmoid")])
    return fitted(model, x, (x.sum(axis=-1, keepdims=True) > 0).astype(int), {"loss": "dice"})


@case("predictions of one dimension, compared along the batch")
def cosine_similarity_along_the_samples(samples: int) -> dict[str, Any]:
    model = keras.Sequential([keras.Input((6,)), layers.Dense(1), layers.Reshape(())])
    x, _ = numbers(samples)
    return fitted(model, x, x[:, 0] ** 2, {"loss": "cosine_similarity"}) | ONLY_TRAINED


@case("hinge losses of labels that are not 0 and 1 alone")
def hinge_of_other_labels(samples: int) -> dict[str, Any]:
    """Keras converts labels when all of the batch are 0 or 1."""
    x, _ = numbers(samples)
    labels = np.where(np.arange(samples) % 32 == 3, -1, np.arange(samples) % 2)
    model = keras.Sequential([keras.Input((6,)), layers.Dense(1)])
    return fitted(model, x, labels[:, None], {"loss": "hinge", "metrics": ["squared_hinge"]})
