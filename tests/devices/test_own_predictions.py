"""Steps of `predict` of the user's own: each sample gets what one replica would predict, or the step is refused."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers, ops

from tests.exactness.table import numbers
from tests.helpers.marks import slow
from tests.helpers.mirrored import mirrored
from tfdist.errors import UnsupportedError
from tfdist.runtime.strategy_settings import settings_of

pytestmark = pytest.mark.usefixtures("repaired", "float64")


def rows_of(data: Any) -> Any:
    return keras.utils.unpack_x_y_sample_weight(data)[0]


class Standing(keras.Model):
    """How each sample stands among those of its batch."""

    def predict_step(self, data: Any) -> Any:
        return ops.softmax(self(rows_of(data), training=False), axis=0)


class Alone(keras.Model):
    """Rows of their own, several for each sample."""

    def predict_step(self, data: Any) -> Any:
        return ops.reshape(self(rows_of(data), training=False), (-1, 2))


class OnlyInGraphs(keras.Model):
    def predict_step(self, data: Any) -> Any:
        if tf.executing_eagerly():
            raise RuntimeError("only in graphs")
        return self(rows_of(data), training=False) - ops.mean(rows_of(data))


class Adapting(keras.Model):
    """Trains on what it predicts, as of test-time adaptation."""

    def predict_step(self, data: Any) -> Any:
        with tf.GradientTape() as tape:
            spread = ops.mean(ops.square(self(rows_of(data), training=False)))
        self.optimizer.apply(tape.gradient(spread, self.trainable_variables), self.trainable_variables)
        return self(rows_of(data), training=False)


class Searching(keras.Model):
    """Follows the gradient of a mean by its inputs, as models of energy do."""

    def predict_step(self, data: Any) -> Any:
        x = rows_of(data)
        with tf.GradientTape() as tape:
            tape.watch(x)
            energy = ops.mean(ops.square(self(x, training=False)))
        return x - tape.gradient(energy, x)


class WithAnchors(keras.Model):
    def predict_step(self, data: Any) -> Any:
        return self(rows_of(data), training=False), ops.arange(4)


class StandingWithAnchors(keras.Model):
    """With a constant beside rows that are computed from all samples."""

    def predict_step(self, data: Any) -> Any:
        return ops.softmax(self(rows_of(data), training=False), axis=0), ops.arange(4)


class WithAnchorsOfKeras(keras.Model):
    """Under Keras's own step."""

    def call(self, inputs: Any, training: bool = False) -> Any:
        return super().call(inputs), ops.arange(4)


class WithMean(keras.Model):
    """Beside rows a number for the whole batch, as a row."""

    def call(self, inputs: Any, training: bool = False) -> Any:
        rows = super().call(inputs)
        return rows, ops.mean(rows)[None]


class WithScalar(keras.Model):
    def call(self, inputs: Any, training: bool = False) -> Any:
        rows = super().call(inputs)
        return rows, ops.mean(rows)


def model_of(kind: type[keras.Model], **options: Any) -> keras.Model:
    keras.utils.set_random_seed(3)
    inputs = keras.Input((6,))
    model = kind(inputs, layers.Dense(4, activation="tanh")(inputs))
    model.compile(keras.optimizers.SGD(0.1), **options)
    return model


def predicted(kind: type[keras.Model], **options: Any) -> list[Any]:
    x, _ = numbers(65)
    outputs = model_of(kind, **options).predict(x, batch_size=32, verbose=0)
    return keras.tree.flatten(outputs)


EXACT = [Standing, Alone, OnlyInGraphs, Adapting, Searching, WithAnchors, StandingWithAnchors, WithAnchorsOfKeras]
EXACT += [WithMean]


@pytest.mark.parametrize("replicas", [2, slow(3)])
@pytest.mark.parametrize("kind", EXACT)
def test_each_sample_gets_what_one_replica_predicts(kind: type[keras.Model], replicas: int) -> None:
    expected = predicted(kind)
    with mirrored(replicas).scope():
        received = predicted(kind)
    for one, other in zip(expected, received, strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-10, atol=1e-12)


def test_a_model_that_is_never_compiled() -> None:
    x, _ = numbers(65)
    inputs = keras.Input((6,))
    expected = Standing(inputs, inputs).predict(x, batch_size=32, verbose=0)
    with mirrored(2).scope():
        inputs = keras.Input((6,))
        np.testing.assert_allclose(Standing(inputs, inputs).predict(x, batch_size=32, verbose=0), expected, rtol=1e-10)


def test_in_steps_that_run_eagerly() -> None:
    expected = predicted(Standing)
    with mirrored(2).scope():
        np.testing.assert_allclose(predicted(Standing, run_eagerly=True)[0], expected[0], rtol=1e-10)


@pytest.mark.parametrize("kind", [WithAnchors, WithAnchorsOfKeras, StandingWithAnchors])
def test_constants_in_steps_that_run_eagerly_are_refused(kind: type[keras.Model]) -> None:
    with mirrored(2).scope(), pytest.raises(UnsupportedError, match=f"{kind.__name__}.predict_step.*run_eagerly"):
        predicted(kind, run_eagerly=True)


def test_nothing_is_tried_out_where_gathering_is_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings_of(mirrored(2)), "gather", False)
    expected = predicted(Standing)
    with mirrored(2).scope():
        assert not np.allclose(predicted(Standing)[0], expected[0], rtol=1e-3)


def test_scalars_are_refused() -> None:
    with mirrored(2).scope(), pytest.raises(UnsupportedError, match=r"predicts a scalar.*value\[tf.newaxis\]"):
        predicted(WithScalar)
