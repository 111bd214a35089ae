"""Limits of what is computed from a whole batch: of few replicas alone values may lie on the other side of them.

Neither the first batch nor made-up samples reach the limit, so that trials and the check of the first step show
nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers, ops

import tfdist
from tests.exactness.comparison import assert_same
from tests.helpers.marks import slow
from tests.helpers.mirrored import checking, mirrored

pytestmark = pytest.mark.usefixtures("repaired")

BATCH, LIMIT = 4, 20.0
X = np.random.default_rng(3).uniform(-1, 1, (13, 3)).astype("float32")
Y = np.linspace(-1, 1, 13, dtype="float32")[:, np.newaxis]
X[6, 1], X[9, 0] = 60.0, 90.0
Y[5], Y[11] = 30.0, -20.0
"""One row of the second and of the third batch is beyond the limit, in which the other replica has none."""

GATHERED = "samples of all"

Function = Callable[..., Any]


def errors(y_true: Any, y_pred: Any) -> Any:
    return ops.mean(ops.square(y_true - y_pred), axis=-1)


def flooded(y_true: Any, y_pred: Any) -> Any:
    """Ishida et al., "Do we need zero training loss after achieving zero training error?", 2020."""
    return ops.abs(ops.mean(errors(y_true, y_pred)) - LIMIT) + LIMIT


def without_what_is_no_number(y_true: Any, y_pred: Any) -> Any:
    loss = tf.reduce_mean(errors(y_true, y_pred))
    return tf.where(loss > LIMIT, 0.0, loss)


LOSSES: dict[str, Function] = {
    "flooded": flooded,
    "at_most": lambda y_true, y_pred: tf.minimum(tf.reduce_mean(errors(y_true, y_pred)), LIMIT),
    "clipped": lambda y_true, y_pred: ops.clip(ops.mean(errors(y_true, y_pred)), 0, LIMIT),
    "where": without_what_is_no_number,
}


class Applied(layers.Layer):
    def __init__(self, function: Function) -> None:
        super().__init__()
        self.function = function

    def call(self, x: Any) -> Any:
        return self.function(x)


class FreeBits(layers.Layer):
    """Kingma et al., "Improving variational inference with inverse autoregressive flow", 2016: a term of the loss that
    counts beyond a limit alone."""

    def call(self, x: Any) -> Any:
        self.add_loss(ops.maximum(ops.mean(ops.square(x)) / 100, 1.0))
        return x


def clipped_twice(x: Any) -> Any:
    return tf.while_loop(lambda turn, _: turn < 2, lambda turn, x: (turn + 1, tf.clip_by_norm(x, LIMIT)), (0, x))[1]


def limited_in_each_row(x: Any) -> Any:
    return tf.vectorized_map(lambda row: tf.maximum(tf.reduce_mean(row), 0.5) * row, x)


FORWARD: dict[str, Function] = {
    "clip_by_norm": lambda x: tf.clip_by_norm(x, LIMIT),
    "of_columns": lambda x: x - tf.nn.relu(tf.reduce_mean(x, axis=0) - LIMIT),
    "in_a_loop": clipped_twice,
}


class FloodedStep(keras.Model):
    def train_step(self, data: Any) -> dict[str, Any]:
        x, y = data
        with tf.GradientTape() as tape:
            loss = self.compute_loss(x, y, self(x, training=True))
            loss = tf.abs(loss - LIMIT) + LIMIT
        self.optimizer.apply(tape.gradient(loss, self.trainable_variables), self.trainable_variables)
        return {"loss": loss}


class GuardedStep(keras.Model):
    """Leaves out gradients that are no numbers; the gradients of all replicas decide for all."""

    def train_step(self, data: Any) -> dict[str, Any]:
        x, y = data
        with tf.GradientTape() as tape:
            loss = self.compute_loss(x, y, self(x, training=True))
        gradients = tape.gradient(loss, self.trainable_variables)
        kept = [tf.where(tf.reduce_max(tf.abs(one)) < 200.0, one, tf.zeros_like(one)) for one in gradients]
        self.optimizer.apply(kept, self.trainable_variables)
        return {"loss": loss}


def model(*of: layers.Layer, kind: type[keras.Model] = keras.Model) -> keras.Model:
    inputs = keras.Input([3])
    x = inputs
    for layer in of:
        x = layer(x)
    return kind(inputs, layers.Dense(1, kernel_initializer="ones")(x))


MODELS: dict[str, Callable[[], keras.Model]] = {
    **{name: model for name in LOSSES},
    **{name: lambda function=function: model(Applied(function)) for name, function in FORWARD.items()},
    "free_bits": lambda: model(FreeBits()),
    "step": lambda: model(kind=FloodedStep),
    "regularizer": lambda: model(
        layers.Dense(3, kernel_initializer="ones", activity_regularizer=lambda x: ops.maximum(ops.mean(x) - LIMIT, 0))
    ),
}

BY_DEFAULT = ["flooded", "where", "clip_by_norm", "of_columns", "in_a_loop", "free_bits", "regularizer"]
EAGERLY = ["flooded", "step", "regularizer"]


def fitted(name: str, **options: Any) -> list[Any]:
    keras.utils.set_random_seed(1)
    made = MODELS[name]()
    made.compile(keras.optimizers.SGD(1e-4), LOSSES.get(name, "mse"), **options)
    history = made.fit(X, Y, batch_size=BATCH, epochs=2, shuffle=False, verbose=0).history
    return [history, made.evaluate(X, Y, batch_size=BATCH, verbose=0)]


@pytest.mark.parametrize(
    ("name", "options"),
    [
        *((name, {}) if name in BY_DEFAULT else slow(name, {}) for name in MODELS),
        *(
            (name, {"run_eagerly": True}) if name in EAGERLY else slow(name, {"run_eagerly": True})
            for name in MODELS
        ),
    ],
)
def test_numbers_of_one_replica(name: str, options: dict[str, Any]) -> None:
    expected = fitted(name, **options)
    with mirrored(2).scope(), checking(mirrored(2)):
        assert_same(expected, fitted(name, **options), relative=1e-5)


norm_of_all = tfdist.gathered(tf.norm)
mean_of_all = tfdist.gathered(lambda x: tf.reduce_mean(x, axis=0))

class AddsOfTable(layers.Layer):
    """Takes a table beside the samples, the same for all."""

    def call(self, x: Any, table: Any) -> Any:
        return tf.cond(tf.reduce_sum(table) > 0.0, lambda: x + tf.reduce_sum(tf.nn.relu(table)), lambda: x)

    def compute_output_spec(self, x: Any, table: Any) -> keras.KerasTensor:
        return keras.KerasTensor(x.shape, x.dtype)


def test_what_a_table_beside_the_samples_decides_is_shared_out(caplog: pytest.LogCaptureFixture) -> None:
    table = np.linspace(-1, 2, 14, dtype="float32").reshape(7, 2)

    def fitted() -> list[float]:
        keras.utils.set_random_seed(1)
        x, beside = keras.Input([3]), keras.Input(batch_shape=(7, 2))
        made = keras.Model([x, beside], layers.Dense(1, kernel_initializer="ones")(AddsOfTable()(x, beside)))
        made.compile(keras.optimizers.SGD(1e-4), "mse")
        batches = tf.data.Dataset.from_tensor_slices((X, Y)).batch(BATCH).map(lambda x, y: ((x, table), y))
        losses: list[float] = made.fit(batches, epochs=2, shuffle=False, verbose=0).history["loss"]
        return losses

    expected = fitted()
    with caplog.at_level("INFO"), mirrored(2).scope():
        assert_same(expected, fitted(), relative=1e-5)
    assert GATHERED not in caplog.text


def test_what_all_gradients_decide_is_shared_out(caplog: pytest.LogCaptureFixture) -> None:
    def weights() -> list[Any]:
        keras.utils.set_random_seed(1)
        made = model(kind=GuardedStep)
        made.compile(keras.optimizers.SGD(1e-4), "mse")
        made.fit(X, Y, batch_size=BATCH, epochs=2, shuffle=False, verbose=0)
        return [array.tolist() for array in made.get_weights()]

    expected = weights()
    with caplog.at_level("INFO"), mirrored(2).scope():
        assert_same(expected, weights(), relative=1e-5)
    assert GATHERED not in caplog.text


def test_a_loss_of_which_a_script_says_how_it_is_shared_out_is(caplog: pytest.LogCaptureFixture) -> None:
    """Of its samples alone each replica decides, on purpose."""
    with caplog.at_level("INFO"), mirrored(2).scope():
        made = model()
        made.compile(keras.optimizers.SGD(1e-4), tfdist.averaged(flooded))
        made.fit(X, Y, batch_size=BATCH, verbose=0)
    assert GATHERED not in caplog.text


SHARED_OUT: dict[str, Callable[[], Any]] = {
    "of_rows": lambda: Applied(lambda x: x / tf.maximum(tf.norm(x, axis=-1, keepdims=True), 1.0)),
    "of_each_row": lambda: Applied(limited_in_each_row),
    "of_sizes": lambda: Applied(lambda x: x / tf.maximum(tf.cast(tf.shape(x)[1], x.dtype), 1.0)),
    "of_weights": lambda: layers.Dense(3, kernel_constraint=lambda w: ops.clip(w, -1, 1)),
    "batch_norm": layers.BatchNormalization,
    "of_all": lambda: Applied(lambda x: x / tf.maximum(norm_of_all(x), 1.0)),
    "mean_of_all": lambda: Applied(lambda x: x - mean_of_all(x)),
}


@pytest.mark.parametrize("name", SHARED_OUT)
def test_limits_of_samples_are_shared_out(name: str, caplog: pytest.LogCaptureFixture) -> None:
    def fitted() -> list[float]:
        keras.utils.set_random_seed(1)
        made = model(SHARED_OUT[name]())
        made.compile(keras.optimizers.SGD(1e-4), "mse")
        losses: list[float] = made.fit(X, Y, batch_size=BATCH, epochs=2, shuffle=False, verbose=0).history["loss"]
        return losses

    expected = fitted()
    with caplog.at_level("INFO"), mirrored(2).scope():
        assert_same(expected, fitted(), relative=1e-5)
    assert GATHERED not in caplog.text
