"""Small models with many features, whose numbers show how replicas share out their steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import layers, ops

from tests.exactness.table import numbers, tokens

SAMPLES, BATCH = 33, 16
"""The last batch is one sample, of which all replicas but one have none."""


class Penalized(layers.Layer):
    """Adds a mean over the samples to the loss."""

    def call(self, x: Any) -> Any:
        self.add_loss(0.3 * ops.mean(ops.square(x)))
        return x


class Largest(keras.metrics.Metric):
    """A maximum."""

    def __init__(self, **options: Any) -> None:
        super().__init__(name="largest", **options)
        self.value = self.add_weight(initializer="zeros", name="value")

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        self.value.assign(ops.maximum(self.value, ops.max(y_pred)))

    def result(self) -> Any:
        return ops.copy(self.value)


def rich_model() -> keras.Model:
    """Losses from everywhere, batch statistics, dropout, a mean and a maximum, averaged weights."""
    inputs = keras.Input((6,))
    activity = keras.regularizers.L2(0.05)
    hidden = layers.Dense(5, activation="tanh", kernel_regularizer="l2", activity_regularizer=activity)(inputs)
    hidden = layers.Dropout(0.3, seed=2)(Penalized()(layers.BatchNormalization()(hidden)))
    model = keras.Model(inputs, layers.Dense(3)(hidden))
    average = {"use_ema": True, "ema_momentum": 0.8}
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(
        keras.optimizers.SGD(0.1, momentum=0.9, weight_decay=0.01, **average),
        loss,
        metrics=[Largest()],
        weighted_metrics=["accuracy"],
    )
    return model


def of_everything() -> dict[str, Any]:
    """What comes of `fit` with weighted samples."""
    weight = np.random.default_rng(3).uniform(0.2, 2.0, SAMPLES)
    return fitted(rich_model(), *numbers(SAMPLES), sample_weight=weight)


def of_no_training() -> dict[str, Any]:
    """What comes of `evaluate` and `predict`."""
    model, (x, y) = rich_model(), numbers(SAMPLES)
    evaluated = model.evaluate(x, y, batch_size=BATCH, verbose=0)
    return {"evaluate": evaluated, "predict": model.predict(x, batch_size=BATCH, verbose=0)}


def of_classes() -> dict[str, Any]:
    """Weighted classes."""
    model = keras.Sequential([keras.Input((6,)), layers.Dense(3, activation="softmax")])
    model.compile("sgd", "sparse_categorical_crossentropy")
    return fitted(model, *numbers(SAMPLES), class_weight={0: 1.0, 1: 3.0, 2: 0.5})


def of_tokens() -> dict[str, Any]:
    """Masked words, of which sparse gradients come."""
    words = layers.Embedding(20, 4, mask_zero=True)
    model = keras.Sequential([keras.Input((7,)), words, layers.Dense(3, activation="softmax")])
    model.compile(keras.optimizers.SGD(0.5), "sparse_categorical_crossentropy")
    x = tokens(SAMPLES)
    return fitted(model, x, x % 3)


def of_noise() -> dict[str, Any]:
    """A bias before a normalization, whose gradient is rounding alone, under Adam, which makes steps of it."""
    inputs = keras.Input((6,))
    hidden = layers.Activation("tanh")(layers.BatchNormalization()(layers.Dense(5)(inputs)))
    model = keras.Model(inputs, layers.Dense(3, activation="softmax")(hidden))
    model.compile(keras.optimizers.Adam(0.01), "sparse_categorical_crossentropy")
    made = fitted(model, *numbers(SAMPLES))
    noise = ("dense/bias", "dense_bias", "moving_mean")
    return {name: value for name, value in made.items() if not any(part in name for part in noise)}


def of_accumulation() -> dict[str, Any]:
    """Gradients of two batches."""
    model = keras.Sequential([keras.Input((6,)), layers.Dense(3, activation="softmax")])
    optimizer = keras.optimizers.SGD(0.1, momentum=0.9, gradient_accumulation_steps=2)
    model.compile(optimizer, "sparse_categorical_crossentropy")
    return fitted(model, *numbers(SAMPLES))


def of_scaled_loss() -> dict[str, Any]:
    """A loss that is scaled."""
    model = keras.Sequential([keras.Input((6,)), layers.Dense(3, activation="softmax")])
    optimizer = keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(0.1), initial_scale=64.0)
    model.compile(optimizer, "sparse_categorical_crossentropy")
    return fitted(model, *numbers(SAMPLES))


class OwnStep(keras.Model):
    """A step of one's own, which counts its batches."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.seen = tf.Variable(0.0, trainable=False, name="seen", aggregation=tf.VariableAggregation.MEAN)
        self.tracked = keras.metrics.Mean(name="tracked")

    def train_step(self, data: Any) -> Any:
        gradients, loss = self.gradients_of(*data)
        self.optimizer.apply(gradients, self.trainable_variables)
        self.seen.assign_add(1.0)
        self.tracked.update_state(loss)
        return {"tracked": self.tracked.result()}

    def gradients_of(self, x: Any, y: Any) -> Any:
        with tf.GradientTape() as tape:
            errors = keras.losses.sparse_categorical_crossentropy(y, self(x, training=True))
            loss = ops.mean(errors)
        return tape.gradient(loss, self.trainable_variables), loss


class Sharp(OwnStep):
    """Divides gradients by their norm."""

    def gradients_of(self, x: Any, y: Any) -> Any:
        gradients, loss = super().gradients_of(x, y)
        norm = tf.linalg.global_norm(gradients)
        return [gradient / norm for gradient in gradients], loss


def of_own_step(kind: type[OwnStep]) -> dict[str, Any]:
    """A step of one's own."""
    inputs = keras.Input((6,))
    model = kind(inputs, layers.Dense(3, activation="softmax")(inputs))
    model.compile(keras.optimizers.SGD(0.1))
    return fitted(model, *numbers(SAMPLES)) | {"seen": np.asarray(model.seen)}


MODELS: dict[str, Callable[[], dict[str, Any]]] = {
    "rich": of_everything,
    "tested": of_no_training,
    "classes": of_classes,
    "tokens": of_tokens,
    "noise": of_noise,
    "accumulating": of_accumulation,
    "scaled": of_scaled_loss,
    "own": lambda: of_own_step(OwnStep),
    "sharp": lambda: of_own_step(Sharp),
}
"""Each makes a model, fits it, and returns its numbers by name."""


def fitted(model: keras.Model, x: Any, y: Any, **options: Any) -> dict[str, Any]:
    """The numbers of a model that is fitted."""
    history = model.fit(x, y, batch_size=BATCH, epochs=2, shuffle=False, verbose=0, **options).history
    variables = [*model.variables, *model.optimizer.variables]
    # Nobody can read of what an accumulation is made on each replica.
    kept = [variable for variable in variables if "accumulator" not in variable.path]
    return history | {variable.path: np.asarray(variable) for variable in kept}


def numbers_of(name: str) -> dict[str, Any]:
    """The numbers of the model of this name, from fixed seeds."""
    keras.backend.clear_session(free_memory=False)
    keras.utils.set_random_seed(4)
    return MODELS[name]()
