"""Losses that couple the samples of a batch: what a trial finds, what the user declares, what is refused."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import ops
from keras.src.losses.losses import LossFunctionWrapper

import tfdist
from tests.exactness.comparison import assert_same
from tests.exactness.table import numbers
from tests.helpers.marks import slow
from tests.helpers.mirrored import mirrored
from tfdist.errors import UnsupportedError, UsageError
from tfdist.keras_repairs.base.loss_scope import Kind
from tfdist.keras_repairs.coupling.trials.loss_trial import try_out
from tfdist.runtime.strategy_settings import settings_of

pytestmark = pytest.mark.usefixtures("repaired")

CLASSES = (tf.TensorSpec([None], tf.int64), tf.TensorSpec([None, 10], tf.float32))
COLUMNS = (tf.TensorSpec([None, 5], tf.float32), tf.TensorSpec([None, 5], tf.float32))
IMAGES = (tf.TensorSpec([None, None, None, 1], tf.uint8), tf.TensorSpec([None, None, None, 1], tf.float32))


def triplets(y_true: Any, y_pred: Any) -> Any:
    """Nothing as long as no two samples share a label."""
    same = ops.cast(ops.equal(y_true[:, None], y_true[None, :]), y_pred.dtype) - ops.eye(ops.shape(y_true)[0])
    return ops.sum(same * ops.matmul(y_pred, ops.transpose(y_pred)))


def strict(y_true: Any, y_pred: Any) -> Any:
    raise RuntimeError("only for my own data")


def only_probabilities(y_true: Any, y_pred: Any) -> Any:
    if np.min(y_pred) < 0:
        raise ValueError("no probabilities")
    return -ops.mean(ops.log(y_pred))


def behind_a_stopped_gradient(y_true: Any, y_pred: Any) -> Any:
    """A mean, whose gradient is that of something else."""
    other = ops.max(y_pred)
    return ops.mean(y_pred) + other - ops.stop_gradient(other)


LOSSES = [
    # A value for each sample, or each pixel of it.
    (lambda y, p: keras.losses.sparse_categorical_crossentropy(y, p), CLASSES, Kind.ROWS),
    (lambda y, p: ops.square(y - p), IMAGES, Kind.ROWS),
    (keras.losses.mean_squared_error, COLUMNS, Kind.ROWS),
    # As many columns as the trial has rows.
    (lambda y, p: ops.mean(ops.square(y - p), axis=0), COLUMNS, Kind.MEAN),
    (lambda y, p: ops.mean(ops.square(y - p)), COLUMNS, Kind.MEAN),
    (lambda y, p: ops.sum(ops.square(y - p), axis=0), COLUMNS, Kind.SUM),
    (lambda y, p: 3 * ops.sum(ops.square(y - p)), IMAGES, Kind.SUM),
    (lambda y, p: 2.0 * ops.ones(()), COLUMNS, Kind.MEAN),
    (only_probabilities, CLASSES, Kind.MEAN),
    (lambda y, p: ops.sqrt(ops.mean(ops.square(y - p))), COLUMNS, None),
    (lambda y, p: ops.max(p), COLUMNS, None),
    (lambda y, p: p[:, 0] - ops.mean(p[:, 0]), COLUMNS, None),
    (lambda y, p: keras.losses.dice(y, p), IMAGES, None),
    (lambda y, p: ops.sum(p) + 1.0, COLUMNS, None),
    # Of a fixed shape every replica draws the same, of the batch's each its rows.
    (lambda y, p: ops.mean(p) + keras.random.normal(()), COLUMNS, Kind.MEAN),
    (lambda y, p: ops.mean(p + keras.random.normal(ops.shape(p))), COLUMNS, None),
    (triplets, CLASSES, None),
    (behind_a_stopped_gradient, COLUMNS, None),
    (strict, COLUMNS, None),
    (lambda y, p: ops.zeros(()), COLUMNS, None),
]


@pytest.mark.parametrize(("function", "called_with", "kind"), LOSSES)
def test_what_a_trial_finds(function: Any, called_with: tuple[Any, Any], kind: Kind | None) -> None:
    loss = LossFunctionWrapper(function, name="tried")
    verdict = try_out(loss, *called_with)
    assert (verdict.kind, bool(verdict.reason)) == (kind, kind is None)


def test_a_trial_leaves_no_trace() -> None:
    class Counting(keras.losses.Loss):
        def __init__(self) -> None:
            super().__init__()
            self.calls = keras.Variable(0, dtype="int32", trainable=False)
            self.seeds = keras.random.SeedGenerator(3)

        def call(self, y_true: Any, y_pred: Any) -> Any:
            self.calls.assign_add(1)
            return ops.mean(y_pred) * keras.random.uniform((), seed=self.seeds)

    with mirrored(2).scope():
        loss = Counting()
        mirrored(2).run(tf.function(lambda: None if try_out(loss, *COLUMNS).kind else tf.constant(0)))
    assert int(loss.calls.numpy()) == 0
    assert np.asarray(loss.seeds.state).tolist() == np.asarray(keras.random.SeedGenerator(3).state).tolist()


def largest_error(y_true: Any, y_pred: Any) -> Any:
    return ops.max(ops.abs(y_true - y_pred))


def model_of(**compiled: Any) -> keras.Model:
    keras.utils.set_random_seed(11)
    model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(3)])
    model.compile(keras.optimizers.SGD(0.1), **compiled)
    return model


def fitted(sample_weight: Any = None, **compiled: Any) -> dict[str, Any]:
    x, _ = numbers(33)
    model = model_of(**compiled)
    fit = {"sample_weight": sample_weight, "batch_size": 32, "epochs": 2, "shuffle": False, "verbose": 0}
    history = model.fit(x, x[:, :3] ** 2, **fit).history
    return {"history": history, "weights": [weight.tolist() for weight in model.get_weights()]}


@pytest.fixture
def messages(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO, "tfdist")
    return caplog


@pytest.fixture
def gather_is_off() -> Iterator[None]:
    settings_of(mirrored(3)).gather = False
    yield
    settings_of(mirrored(3)).gather = True


def test_one_line_says_that_a_loss_is_gathered(float64: None, messages: pytest.LogCaptureFixture) -> None:
    def root_of_mean(y_true: Any, y_pred: Any) -> Any:
        return ops.sqrt(ops.mean(ops.square(y_true - y_pred)))

    expected = fitted(loss=root_of_mean)
    with mirrored(3).scope():
        assert_same(expected, fitted(loss=root_of_mean))
    (said,) = (record.message for record in messages.records if "root_of_mean" in record.message)
    assert "gathered in each step" in said
    assert "tfdist.averaged(loss)" in said


@pytest.mark.parametrize("loss", [slow("dice"), largest_error])
def test_it_can_be_switched_off(loss: Any, gather_is_off: None, messages: pytest.LogCaptureFixture) -> None:
    expected = fitted(loss=loss)
    with mirrored(3).scope():
        assert fitted(loss=loss)["history"] != expected["history"]
    assert any("gather: off" in record.message for record in messages.records)


def test_what_is_declared_is_not_tried_out(float64: None, messages: pytest.LogCaptureFixture) -> None:
    """It would be gathered: it raises on what is made up."""

    def mean_of_mine(y_true: Any, y_pred: Any) -> Any:
        if tf.executing_eagerly():
            raise RuntimeError("only in a step")
        return ops.mean(ops.square(y_true - y_pred))

    def sum_of_mine(y_true: Any, y_pred: Any) -> Any:
        return 0.1 * mean_of_mine(y_true, y_pred) * ops.cast(ops.size(y_pred), y_pred.dtype)

    for declare, loss in ((tfdist.averaged, mean_of_mine), (tfdist.summed, sum_of_mine)):
        expected = fitted(loss=loss)
        with mirrored(3).scope():
            assert_same(expected, fitted(loss=declare(loss)))
    assert not [record for record in messages.records if "of_mine" in record.message]


class ReducesItself(keras.losses.Loss):
    """The largest error of a batch and a mean, which no value a sample tells."""

    def __call__(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> Any:
        weight = 1.0 if sample_weight is None else ops.expand_dims(ops.convert_to_tensor(sample_weight), -1)
        return ops.max(ops.abs(y_true - y_pred) * weight) + ops.mean(y_pred)


def test_a_loss_that_reduces_itself_is_gathered(float64: None, messages: pytest.LogCaptureFixture) -> None:
    weight = np.linspace(0.0, 2.0, 33)
    expected = [fitted(loss=ReducesItself()), fitted(loss=ReducesItself(), sample_weight=weight)]
    with mirrored(3).scope():
        assert_same(expected[0], fitted(loss=ReducesItself()))
        assert_same(expected[1], fitted(loss=ReducesItself(), sample_weight=weight))
        assert_same(expected[0], fitted(loss=tfdist.gathered(ReducesItself())))
        with pytest.raises(UnsupportedError, match=r"tfdist\.gathered\(loss\)"):
            fitted(loss=tfdist.averaged(ReducesItself()))
    said = [record.message for record in messages.records if "reduces_itself" in record.message]
    assert len(said) == 2
    assert all("defines __call__() itself" in line for line in said)


def test_a_loss_that_reduces_itself_is_refused_where_nothing_is_gathered(gather_is_off: None) -> None:
    with mirrored(3).scope(), pytest.raises(UnsupportedError, match=r"tfdist\.gathered\(loss\)"):
        fitted(loss=ReducesItself())


@keras.saving.register_keras_serializable("tests")
def registered_error(y_true: Any, y_pred: Any) -> Any:
    return largest_error(y_true, y_pred)


@pytest.mark.parametrize("loss", [registered_error, slow(keras.losses.Tversky())])
@pytest.mark.parametrize("declare", [tfdist.gathered, tfdist.averaged, tfdist.summed])
def test_it_is_saved_and_loaded(loss: Any, declare: Any, tmp_path: Path) -> None:
    x, _ = numbers(33)
    y = x[:, :3] ** 2
    with mirrored(2).scope():
        model = model_of(loss=declare(loss))
        model.fit(x, y, verbose=0)
        model.save(tmp_path / "model.keras")
        said = model.evaluate(x, y, batch_size=33, verbose=0)
        loaded = keras.saving.load_model(tmp_path / "model.keras")
        assert loaded.evaluate(x, y, batch_size=33, verbose=0) == said
    alone = keras.saving.load_model(tmp_path / "model.keras")
    if declare is tfdist.gathered:
        assert alone.evaluate(x, y, batch_size=33, verbose=0) == pytest.approx(said)


def test_a_gathered_function_is_a_metric_too(float64: None, messages: pytest.LogCaptureFixture) -> None:
    expected = fitted(loss="mse", metrics=[largest_error])
    with mirrored(3).scope():
        assert_same(expected, fitted(loss="mse", metrics=[tfdist.gathered(largest_error)]))
    assert not [record for record in messages.records if "largest_error" in record.message], "it was tried out"


def steps_by_hand(loss: Any) -> tuple[list[float], list[float]]:
    """A loop with a loss of its own: the losses of the steps, and the weights."""
    strategy = tf.distribute.get_strategy()
    x, _ = numbers(30)
    weight = tf.Variable(tf.ones((6, 3), tf.float64))

    @tf.function
    def step(place: tf.Tensor) -> Any:
        def on_replica(place: tf.Tensor) -> tf.Tensor:
            replicas = strategy.num_replicas_in_sync
            index = tf.distribute.get_replica_context().replica_id_in_sync_group
            rows = tf.reshape(tf.constant(x), [3, replicas, 10 // replicas, 6])[place, tf.convert_to_tensor(index)]
            with tf.GradientTape() as tape:
                value = loss(rows[:, :3] ** 2, tf.matmul(rows, weight))
            gradient = tape.gradient(value, weight)
            gradient = tf.distribute.get_replica_context().all_reduce("sum", gradient)
            weight.assign_sub(0.1 * gradient)
            return value

        return strategy.reduce("sum", strategy.run(on_replica, args=(place,)), axis=None)

    losses = [float(step(tf.constant(place))) for place in range(3)]
    return losses, weight.numpy().tolist()


def test_in_a_loop_by_hand_it_is_refused_unless_it_is_declared(float64: None) -> None:
    x = keras.losses.Tversky(dtype="float64")
    expected = steps_by_hand(x)
    with mirrored(2).scope():
        with pytest.raises(UnsupportedError, match=r"Call tfdist\.gathered\(loss\) in its place"):
            steps_by_hand(x)
        losses, weights = steps_by_hand(tfdist.gathered(x))
    assert_same({"losses": expected[0], "weights": expected[1]}, {"losses": losses, "weights": weights})


@pytest.mark.parametrize("declare", [tfdist.gathered, tfdist.averaged, tfdist.summed])
@pytest.mark.parametrize("what", ["dice", keras.losses.Dice, None])
def test_what_is_no_loss_is_an_error(declare: Any, what: Any) -> None:
    with pytest.raises(UsageError, match="an instance, such as"):
        declare(what)
