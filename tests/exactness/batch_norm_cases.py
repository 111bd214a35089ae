"""BatchNormalization, of scripts that know nothing of replicas and of those that ask for synchronized statistics."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import tensorflow as tf

import tfdist
from tests.exactness.own_step_cases import OwnStep
from tests.exactness.precision_cases import BFLOAT16, FLOAT16
from tests.exactness.table import ONLY_TRAINED, Precision, case, fitted, numbers, token_classifier, tokens

layers, ops = keras.layers, keras.ops


def normalizing(x_shape: tuple[int, ...] = (6,), kind: Any = keras.Model, **options: Any) -> keras.Model:
    """Normalized inputs, too: a replica that took its own statistics would lose what its samples have in common."""
    inputs = keras.Input(x_shape)
    x = layers.BatchNormalization(**options)(inputs)
    x = layers.BatchNormalization(**options)(layers.Dense(8, activation="tanh")(x))
    return kind(inputs, layers.Dense(3, activation="softmax")(x))


def of_tokens(**options: Any) -> keras.Model:
    return token_classifier(layers.BatchNormalization(**options))


def convolutional() -> keras.Model:
    inputs = keras.Input((6, 6, 2))
    x = layers.BatchNormalization(momentum=0.7)(layers.Conv2D(4, 3, use_bias=False)(inputs))
    x = layers.Permute((3, 1, 2))(layers.Conv2D(4, 3, use_bias=False)(layers.ReLU()(x)))
    x = layers.BatchNormalization(axis=1, momentum=0.7)(x)
    return keras.Model(inputs, layers.Dense(3, activation="softmax")(layers.Flatten()(layers.ReLU()(x))))


def images(samples: int) -> tuple[np.ndarray, np.ndarray]:
    x, y = numbers(samples, features=72)
    return x.reshape(-1, 6, 6, 2), y


@case("`BatchNormalization` as scripts write it, after convolutions")
def batch_normalization(samples: int) -> dict[str, Any]:
    return fitted(convolutional(), *images(samples), {"metrics": ["accuracy"]})


@case("`BatchNormalization(synchronized=True)`")
def synchronized_batch_normalization(samples: int) -> dict[str, Any]:
    return fitted(normalizing(synchronized=True, momentum=0.7), *numbers(samples))


@case("`BatchNormalization` of masked inputs")
def batch_norm_of_masked_inputs(samples: int) -> dict[str, Any]:
    ids = tokens(samples)
    return fitted(of_tokens(momentum=0.7), ids, ids % 3)


@case("`BatchNormalization(synchronized=True)` of masked inputs")
def synchronized_statistics_of_masked_inputs(samples: int) -> dict[str, Any]:
    ids = tokens(samples)
    return fitted(of_tokens(synchronized=True, momentum=0.7), ids, ids % 3)


@case("`BatchNormalization(renorm=True)`", needs="layers.BatchNormalization(renorm=True)")
def batch_renormalization(samples: int) -> dict[str, Any]:
    clipping = {"rmax": 1.5, "rmin": 0.5, "dmax": 0.3}
    model = normalizing(renorm=True, renorm_clipping=clipping, renorm_momentum=0.8, momentum=0.7)
    return fitted(model, *numbers(samples))


@case("`BatchNormalization` in a `train_step` of one's own")
def batch_norm_in_a_step_of_ones_own(samples: int) -> dict[str, Any]:
    """Its loss is a mean over a replica's samples, which is weighted after the backward pass."""
    return fitted(normalizing(kind=OwnStep, momentum=0.7), *numbers(samples), loss_and_optimizer())


def loss_and_optimizer() -> dict[str, Any]:
    return {"optimizer": keras.optimizers.SGD(0.1), "loss": keras.losses.SparseCategoricalCrossentropy()}


@case("`BatchNormalization`, noise and dropout with `jit_compile=True`, which XLA then does not compile")
def batch_norm_by_xla(samples: int) -> dict[str, Any]:
    """A single replica compiles it, and draws as XLA does."""
    inputs = keras.Input((6,))
    x = layers.GaussianNoise(0.2, seed=4)(layers.BatchNormalization(momentum=0.7)(inputs))
    x = layers.Dropout(0.3, seed=5)(layers.Dense(8, activation="tanh")(x))
    model = keras.Model(inputs, layers.Dense(3, activation="softmax")(layers.BatchNormalization(momentum=0.7)(x)))
    return fitted(model, *numbers(samples), {"jit_compile": True, "metrics": ["accuracy"]})


@case("`BatchNormalization` of masked inputs with `jit_compile=True`")
def batch_norm_by_xla_of_masked_inputs(samples: int) -> dict[str, Any]:
    ids = tokens(samples)
    return fitted(of_tokens(momentum=0.7), ids, ids % 3, {"jit_compile": True})


@case("`BatchNormalization` that is frozen half way")
def frozen_batch_normalization(samples: int) -> dict[str, Any]:
    x, y = numbers(samples)
    model = normalizing(momentum=0.7)
    first = fitted(model, x, y, epochs=1)
    for layer in model.layers:
        layer.trainable = not isinstance(layer, layers.BatchNormalization)
    second = fitted(model, x, y)
    return second | {"seen": [first["history"]["loss"], model.layers[1].moving_mean.numpy().tolist()]}


@case("`BatchNormalization` with `run_eagerly=True`")
def batch_norm_that_runs_eagerly(samples: int) -> dict[str, Any]:
    return fitted(normalizing(momentum=0.7), *numbers(samples), {"run_eagerly": True}) | ONLY_TRAINED


@case("`BatchNormalization` in `mixed_float16`", FLOAT16)
def batch_norm_in_mixed_float16(samples: int) -> dict[str, Any]:
    return fitted(normalizing(momentum=0.7), *numbers(samples), shuffle=False)


@case("`BatchNormalization` in `mixed_bfloat16`", BFLOAT16)
def batch_norm_in_mixed_bfloat16(samples: int) -> dict[str, Any]:
    return fitted(normalizing(momentum=0.7), *numbers(samples), shuffle=False)


FAR_FROM_ZERO = Precision("float32", "float32", losses=2e-3, weights=2e-3)
"""What rounding does to a mean of a thousand times the spread; a variance from squares would be wrong by a tenth."""


@case("`BatchNormalization` in float32 of inputs whose mean is a thousand times their spread", FAR_FROM_ZERO)
def batch_norm_far_from_zero(samples: int) -> dict[str, Any]:
    x, y = numbers(samples)
    return fitted(normalizing(momentum=0.7), 1000 + x, y, shuffle=False)


@case("`keras.applications.MobileNetV3Small`, with 34 BatchNormalization layers and `Dropout`, on images of 64x64")
def batch_norm_of_a_known_architecture(samples: int) -> dict[str, Any]:
    shape = (64, 64, 3)
    x, y = numbers(samples, features=64 * 64 * 3)
    model = keras.applications.MobileNetV3Small(shape, weights=None, classes=3)
    # Its first layer takes pixels from 0 to 255.
    return fitted(model, 60 * x.reshape(-1, *shape) + 128, y, epochs=1) | ONLY_TRAINED


class Critic(keras.Model):
    """Trained with a penalty on its gradient by its inputs, as of WGAN-GP."""

    def __init__(self, *, gathered: bool) -> None:
        super().__init__()
        self.body = normalizing()
        self.gathered = gathered

    def call(self, x: Any, training: bool = False) -> Any:
        return self.body(x, training=training)

    def penalty(self, x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            score = self(x, training=True)
        norm = ops.sqrt(ops.sum(ops.square(tape.gradient(score, x)), axis=1) + 1e-6)
        return ops.mean(ops.square(norm - 1.0))

    def train_step(self, data: Any) -> dict[str, Any]:
        x, _ = data
        with tf.GradientTape() as tape:
            penalty = tfdist.gathered(self.penalty)(x) if self.gathered else self.penalty(x)
            loss = ops.mean(self(x, training=True)[:, 0]) + 3.0 * penalty
        self.optimizer.apply(tape.gradient(loss, self.trainable_variables), self.trainable_variables)
        return {"total": loss}


@case("a penalty on gradients through batch statistics, `tfdist.gathered`, in a `train_step` of one's own")
def gradient_penalty(samples: int) -> dict[str, Any]:
    return fitted(Critic(gathered=True), *numbers(samples)) | ONLY_TRAINED


@case("the same by a method that says nothing of it")
def gradient_penalty_of_a_method(samples: int) -> dict[str, Any]:
    return fitted(Critic(gathered=False), *numbers(samples)) | ONLY_TRAINED
