"""Fewer samples than replicas, in the last batch or in all: what a replica without samples computes is left out."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import ops

import tfdist
from tests.exactness.own_step_cases import OwnMeans, of
from tests.exactness.table import BATCH, EPOCHS, Precision, case, fitted, fitted_on, numbers, token_classifier, tokens

layers = keras.layers


OF_CTC = Precision("float64", "float64", losses=1e-6, weights=1e-6)
"""TensorFlow computes it in float32 whatever it is given."""


@case("`keras.losses.CTC`, which takes no batch without samples", OF_CTC)
def ctc_loss(samples: int) -> dict[str, Any]:
    x, _ = numbers(samples, features=24)
    labels = np.random.default_rng(7).integers(0, 4, (samples, 3))
    model = keras.Sequential([keras.Input((8, 3)), layers.Dense(5, activation="tanh"), layers.Dense(4)])
    return fitted(model, x.reshape(-1, 8, 3), labels, {"loss": keras.losses.CTC()})


class Unfit(layers.Layer):
    """Operations that fail on no row, or of which the result is then no number."""

    def call(self, inputs: Any) -> Any:
        flat = tf.reshape(inputs, [tf.shape(inputs)[0], -1])
        places = tf.argmax(tf.reshape(flat, [-1]), output_type=tf.int32)
        roots = tf.linalg.cholesky(tf.eye(2, dtype=flat.dtype) + 0.1 * tf.matmul(inputs, inputs, transpose_b=True))
        spread = flat / tf.norm(flat, axis=1, keepdims=True)
        with tf.control_dependencies([tf.debugging.assert_greater(tf.shape(flat)[0], 0), places]):
            return tf.ensure_shape(tf.concat([spread, tf.reshape(roots, [-1, 4])], axis=1), [None, 10])


def _unfit() -> keras.Model:
    return keras.Sequential(
        [
            keras.Input((2, 3)),
            layers.Dense(3, activation="tanh"),
            Unfit(),
            layers.Dense(3, activation="softmax"),
        ]
    )


@case("operations of TensorFlow that fail on no row, and quotients that are no number on zeros")
def operations_that_take_no_row(samples: int) -> dict[str, Any]:
    x, y = numbers(samples)
    return fitted(_unfit(), x.reshape(-1, 2, 3), y, {"metrics": ["accuracy"]})


@case("operations that take no row, with `run_eagerly=True`")
def operations_that_take_no_row_eagerly(samples: int) -> dict[str, Any]:
    x, y = numbers(samples)
    return fitted(_unfit(), x.reshape(-1, 2, 3), y, {"metrics": ["accuracy"], "run_eagerly": True})


def _of_images() -> keras.Model:
    return keras.Sequential(
        [
            keras.Input((4, 4, 2)),
            layers.Conv2D(3, 2, activity_regularizer="l2", kernel_regularizer="l2"),
            layers.BatchNormalization(synchronized=True, momentum=0.7),
            layers.GlobalMaxPooling2D(),
            layers.Dense(3, activation="softmax"),
        ]
    )


def _images(samples: int) -> tuple[np.ndarray, np.ndarray]:
    x, y = numbers(samples, features=32)
    return x.reshape(-1, 4, 4, 2), y


@case("batches of one sample: statistics, regularizers and metrics; evaluated and predicted so, too")
def batches_of_one(samples: int) -> dict[str, Any]:
    x, y = _images(samples)
    model = _of_images()
    weights = np.random.default_rng(8).exponential(size=samples)
    settings = {"optimizer": keras.optimizers.SGD(0.01), "metrics": ["accuracy"], "weighted_metrics": ["accuracy"]}
    made = fitted(model, x, y, settings, batch_size=1, epochs=1, sample_weight=weights)
    seen = [model.evaluate(x[:7], y[:7], batch_size=1, verbose=0), model.predict(x[:7], batch_size=1, verbose=0)]
    return made | {"seen": [np.asarray(part).ravel().tolist() for part in seen]}


@case("batches of two tokens' rows, accumulated, several in one execution")
def batches_of_two_accumulated(samples: int) -> dict[str, Any]:
    ids = tokens(samples)
    model = token_classifier(layers.LSTM(4, return_sequences=True))
    optimizer = keras.optimizers.Adam(0.01, gradient_accumulation_steps=3, clipnorm=0.1)
    return fitted(model, ids, ids % 3, {"optimizer": optimizer, "steps_per_execution": 4}, batch_size=2, epochs=1)


@case("batches of one sample in a `train_step` of one's own")
def batches_of_one_in_a_step_of_ones_own(samples: int) -> dict[str, Any]:
    return fitted(of(OwnMeans), *numbers(samples), batch_size=1, epochs=1)


@case("batches of one sample compiled by XLA")
def batches_of_one_by_xla(samples: int) -> dict[str, Any]:
    x, y = numbers(samples)
    model = keras.Sequential(
        [keras.Input((6,)), layers.Dense(8, activation="tanh"), layers.UnitNormalization(), layers.Dense(3)]
    )
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    return fitted(model, x, y, {"jit_compile": True, "loss": loss}, batch_size=1, epochs=1)


@case("`tfdist.data` in batches of one sample")
def pipeline_of_batches_of_one(samples: int) -> dict[str, Any]:
    x, y = _images(samples)
    data = tfdist.data.arrays(x, y, batch_size=1, shuffle=True, seed=3)
    return fitted_on(_of_images(), data, tfdist.data.arrays(x, y, batch_size=BATCH))


class OfOwnMetric(keras.Model):
    """Updates metrics of classes and of scalars itself, and returns the logs as they are."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.curve = keras.metrics.AUC(name="curve")
        self.least = keras.metrics.Mean(name="least")

    @property
    def metrics(self) -> list[keras.metrics.Metric]:
        return [self.curve, self.least]

    def train_step(self, data: Any) -> dict[str, Any]:
        x, y = data
        with tf.GradientTape() as tape:
            y_pred = self(x, training=True)
            # Without samples no number, as is its gradient.
            loss = ops.sum(ops.square(y_pred - ops.one_hot(y, 3))) / ops.cast(ops.shape(x)[0], y_pred.dtype)
        gradients = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply(gradients, self.trainable_variables)
        self.curve.update_state(ops.one_hot(y, 3), y_pred)
        self.least.update_state(ops.min(y_pred, axis=1))
        return {"loss": loss, **{metric.name: metric.result() for metric in self.metrics}}


@case("metrics that a step updates itself, in batches of one sample")
def own_step_with_metrics_of_one(samples: int) -> dict[str, Any]:
    x, y = numbers(samples)
    model = of(OfOwnMetric)
    model.compile(keras.optimizers.SGD(0.1))
    history = model.fit(x, y, batch_size=1, epochs=EPOCHS - 1, verbose=0)
    return {"model": model, "x": x, "y": None, "history": history.history, "evaluate": False}
