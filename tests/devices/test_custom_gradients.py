"""`tf.custom_gradient`s that couple samples: of few replicas alone their gradients would be others.

What clips by a norm does so late, when neither a first batch nor a layer that is tried out reaches the limit.
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
from tests.devices.repair_removal import take_out
from tests.exactness.comparison import assert_same
from tests.helpers.marks import slow
from tests.helpers.mirrored import checking, mirrored
from tfdist.errors import UnsupportedError

pytestmark = pytest.mark.usefixtures("repaired")

BATCH, LIMIT = 4, 5.0
X = np.random.default_rng(3).uniform(-1, 1, (13, 3)).astype("float32")
Y = np.linspace(-1, 1, 13, dtype="float32")[:, np.newaxis]
Y[5], Y[11] = 30.0, -20.0
"""Their gradients alone are beyond the limit, in the second and in the third batch."""

Function = Callable[..., Any]
EAGERLY = {"run_eagerly": True}


def with_gradient(gradient: Function, forward: Function = tf.identity) -> Function:
    return tf.custom_gradient(lambda x: (forward(x), gradient))


def divided_by_rows(upstream: Any) -> Any:
    return upstream / tf.cast(tf.shape(upstream)[0], upstream.dtype)


@tf.custom_gradient
def weighed(x: Any, weights: Any) -> Any:
    """The gradient of weights is clipped, and not that of samples."""
    return x * weights, lambda upstream: (upstream * weights, tf.clip_by_norm(tf.reduce_sum(upstream * x, 0), LIMIT))


def clipped(upstream: Any) -> Any:
    return tf.clip_by_norm(upstream, LIMIT)


def clipped_by_value(upstream: Any) -> Any:
    return tf.clip_by_value(upstream, -1.0, 1.0)


class Applied(layers.Layer):
    def __init__(self, function: Function) -> None:
        super().__init__()
        self.function = function

    def build(self, shape: Any) -> None:
        self.weights_of_columns = self.add_weight(shape=(1,), initializer="ones")

    def call(self, x: Any) -> Any:
        return self.function(x, self.weights_of_columns.value) if self.function is weighed else self.function(x)


class OwnStep(keras.Model):
    def train_step(self, data: Any) -> dict[str, Any]:
        x, y = data
        with tf.GradientTape() as tape:
            loss = self.compute_loss(x, y, self(x, training=True))
        self.optimizer.apply(tape.gradient(loss, self.trainable_variables), self.trainable_variables)
        return {"loss": loss}


COUPLING: dict[str, Function] = {
    "clipped_by_norm": with_gradient(clipped),
    "by_keras": ops.custom_gradient(lambda x: (x * 1.0, clipped)),
    "normalized": with_gradient(lambda upstream: upstream / (1.0 + tf.norm(upstream))),
    "divided_by_rows": with_gradient(divided_by_rows),
    "of_weights": weighed,
    "gathered": tfdist.gathered(with_gradient(clipped, lambda x: x - tf.reduce_mean(x, 0))),
    "gathered_layer": with_gradient(clipped, lambda x: x - tf.reduce_mean(x, 0)),
}

BY_DEFAULT = ["clipped_by_norm", "of_weights", "gathered_layer"]

SHARED_OUT: dict[str, Function] = {
    "reversed": with_gradient(lambda upstream: -0.3 * upstream),
    "clipped_by_value": with_gradient(clipped_by_value),
    "clipped_in_rows": with_gradient(lambda upstream: tf.clip_by_norm(upstream, LIMIT, axes=[-1])),
    "rounded": with_gradient(lambda upstream: upstream, tf.round),
    "gathered": tfdist.gathered(with_gradient(lambda upstream: 2 * upstream, lambda x: x - tf.reduce_mean(x, 0))),
}


def fitted(function: Function, kind: type[keras.Model] = keras.Model, **options: Any) -> list[Any]:
    keras.utils.set_random_seed(1)
    inputs = keras.Input([3])
    model = kind(inputs, layers.Dense(1)(Applied(function)(layers.Dense(1, kernel_initializer="ones")(inputs))))
    model.compile(keras.optimizers.SGD(0.01), "mse", **options)
    losses = model.fit(X, Y, batch_size=BATCH, epochs=2, shuffle=False, verbose=0).history["loss"]
    return [losses, model.predict(X, batch_size=BATCH, verbose=0).tolist()]


@pytest.mark.parametrize(
    ("name", "kind", "options"),
    [
        *((name, keras.Model, {}) if name in BY_DEFAULT else slow(name, keras.Model, {}) for name in COUPLING),
        ("clipped_by_norm", OwnStep, {}),
        slow("gathered", OwnStep, {}),
        ("clipped_by_norm", keras.Model, EAGERLY),
        slow("gathered", OwnStep, EAGERLY),
    ],
)
def test_numbers_of_one_replica(name: str, kind: type[keras.Model], options: dict[str, Any]) -> None:
    expected = fitted(COUPLING[name], kind, **options)
    with mirrored(2).scope(), checking(mirrored(2)):
        assert_same(expected, fitted(COUPLING[name], kind, **options), relative=1e-5)


@pytest.mark.parametrize("options", [{}, EAGERLY])
def test_refused_where_no_check_may_run_the_step_whole(options: dict[str, Any]) -> None:
    with mirrored(2).scope(), pytest.raises(UnsupportedError, match=r"couples the samples .* clipnorm"):
        fitted(COUPLING["normalized"], **options)


@pytest.mark.parametrize(
    ("name", "options"), [*((name, {}) for name in SHARED_OUT), *(slow(name, EAGERLY) for name in SHARED_OUT)]
)
def test_gradients_of_single_samples_are_shared_out(name: str, options: dict[str, Any]) -> None:
    """Otherwise the step is refused, which is not checked."""
    expected = fitted(SHARED_OUT[name], **options)
    with mirrored(2).scope():
        assert_same(expected, fitted(SHARED_OUT[name], **options), relative=1e-5)


@pytest.mark.parametrize(
    ("path", "options"), [("_graph_mode_decorator", {}), ("_eager_mode_decorator", EAGERLY)]
)
def test_without_the_repair_numbers_are_others(
    path: str, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = fitted(COUPLING["normalized"], **options)
    take_out(f"tensorflow.python.ops.custom_gradient.{path}", monkeypatch)
    with mirrored(2).scope():
        received = fitted(COUPLING["normalized"], **options)
    with pytest.raises(AssertionError):
        assert_same(expected, received, relative=1e-5)
