"""Which rows of what is computed on the rows of all replicas are a replica's own, in graphs and eagerly."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfdist
from tests.helpers.mirrored import mirrored
from tfdist.errors import UnsupportedError
from tfdist.keras_repairs.coupling import declarations

pytestmark = pytest.mark.usefixtures("repaired")

PIECES = [[0.0, 1.0, 2.0], [3.0]]
"""The rows of two replicas."""

MODES = pytest.mark.parametrize("mode", [tf.function, lambda function: function], ids=["graph", "eager"])


def on_replicas(function: Callable[[tf.Tensor], Any], mode: Callable[..., Any]) -> list[Any]:
    """What each of the two replicas gets from a gathered function of its rows."""

    def rows(context: Any) -> tf.Tensor:
        return tf.constant(PIECES[context.replica_id_in_sync_group])[:, tf.newaxis] * [1.0, 10.0]

    def called(own: tf.Tensor) -> Any:
        # As in a step, where the size of the batch is not known before it runs.
        return tfdist.gathered(function)(tf.compat.v1.placeholder_with_default(own, [None, 2]))

    with mirrored(2).scope():
        given = mirrored(2).experimental_distribute_values_from_function(rows)
        result = mirrored(2).run(mode(called), (given,))
        return [np.asarray(part).tolist() for part in mirrored(2).experimental_local_results(result)]


@MODES
def test_rows(mode: Callable[..., Any]) -> None:
    assert on_replicas(lambda x: x[:, 0] - tf.reduce_min(x), mode) == PIECES


def test_own_rows_where_replicas_know_how_many_they_have() -> None:
    centered = tfdist.gathered(lambda x: x - tf.reduce_mean(x, 0))
    with mirrored(2).scope():
        given = mirrored(2).experimental_distribute_values_from_function(
            lambda context: tf.constant(PIECES[context.replica_id_in_sync_group])
        )
        result = mirrored(2).run(tf.function(centered, autograph=False), (given,))
        own = [part.numpy().tolist() for part in mirrored(2).experimental_local_results(result)]
    assert own == [[-1.5, -0.5, 0.5], [1.5]]


def test_own_rows_of_single_batches() -> None:
    x = np.arange(10.0).reshape(5, 2)
    with mirrored(2).scope():
        centered = keras.layers.Lambda(lambda x: tfdist.gathered(lambda x: x - tf.reduce_mean(x, 0))(x))
        model = keras.Sequential([keras.Input((2,)), centered])
        model.compile("sgd", "mse")
        np.testing.assert_allclose(model.predict_on_batch(x), x - x.mean(0))
        np.testing.assert_allclose(model.train_on_batch(x, np.zeros((5, 2))), np.var(x, axis=0).mean(), rtol=1e-6)


class TableBesideSamples(keras.Model):
    """Gathers its inputs, and a table that has as many rows as one of two replicas has of 7 samples."""

    def call(self, x: Any) -> Any:
        table = tf.reshape(tf.range(8.0), [4, 2])
        return tfdist.gathered(lambda x, table: x - tf.reduce_mean(x, 0) + tf.reduce_sum(table, 0))(x, table)


class TableInAStep(keras.Model):
    """Gathers in its own step."""

    def train_step(self, data: Any) -> dict[str, Any]:
        x, y = data[:2]
        table = tf.reshape(tf.range(8.0), [4, 2])
        with tf.GradientTape() as tape:
            p = self(x, training=True)
            near = tfdist.gathered(lambda p, table: keras.ops.mean(tf.square(p - tf.reduce_mean(table, 0))))(p, table)
            loss = keras.ops.mean(tf.square(p - y)) + near
        self.optimizer.apply(tape.gradient(loss, self.trainable_variables), self.trainable_variables)
        return {"own_loss": loss}


ROWS = pytest.mark.parametrize("rows", [7, 8])
"""Of which one of two replicas has four, and both."""


@ROWS
@pytest.mark.parametrize("eagerly", [True, False])
def test_a_table_as_large_as_a_replicas_rows_is_gathered_by_none(rows: int, eagerly: bool) -> None:
    x = np.arange(2.0 * rows, dtype="float32").reshape(rows, 2)

    def predicted(strategy: tf.distribute.Strategy) -> np.ndarray:
        with strategy.scope():
            model = keras.Sequential([keras.Input((2,)), TableBesideSamples()])
            model.compile(run_eagerly=eagerly)
            return model.predict_on_batch(x)

    np.testing.assert_allclose(predicted(mirrored(2)), predicted(tf.distribute.get_strategy()), rtol=1e-6)


def test_by_its_size_alone_a_table_would_be_gathered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(declarations, "known_rows", lambda values, step: None)
    with pytest.raises(AssertionError):
        test_a_table_as_large_as_a_replicas_rows_is_gathered_by_none(8, eagerly=True)


@ROWS
@pytest.mark.parametrize("eagerly", [True, False])
def test_a_table_in_a_step_of_ones_own_is_gathered_by_none(rows: int, eagerly: bool) -> None:
    x = np.arange(2.0 * rows, dtype="float32").reshape(rows, 2) / 8

    def trained(strategy: tf.distribute.Strategy) -> list[np.ndarray]:
        keras.utils.set_random_seed(3)
        with strategy.scope():
            inputs = keras.Input((2,))
            model = TableInAStep(inputs, keras.layers.Dense(2)(inputs))
            model.compile(keras.optimizers.SGD(0.01), run_eagerly=eagerly)
            model.train_on_batch(x, 2 * x)
            return list(model.get_weights())

    for several, one in zip(trained(mirrored(2)), trained(tf.distribute.get_strategy()), strict=True):
        np.testing.assert_allclose(several, one, rtol=1e-5, atol=1e-6)


@MODES
def test_several_rows_to_each(mode: Callable[..., Any]) -> None:
    assert on_replicas(lambda x: tf.reshape(x, [-1]), mode) == [[0, 0, 1, 10, 2, 20], [3, 30]]


@MODES
def test_rows_along_another_axis(mode: Callable[..., Any]) -> None:
    columns = on_replicas(lambda x: tf.transpose(x) - tf.reduce_min(x), mode)
    assert columns == [[[0, 1, 2], [0, 10, 20]], [[3], [30]]]


def test_another_open_size_is_not_that_of_rows() -> None:
    def table(x: tf.Tensor) -> tf.Tensor:
        return tf.compat.v1.placeholder_with_default(tf.ones([2, 8]), [2, None]) * tf.reduce_sum(x[:, 0])

    assert on_replicas(table, tf.function) == [[[6.0] * 8] * 2] * 2


def test_an_open_size_of_what_cannot_be_traced_again_is_refused() -> None:
    done: list[None] = []

    def once(x: tf.Tensor) -> tf.Tensor:
        done.append(None)
        if len(done) > 1:
            raise RuntimeError
        return tf.transpose(x)

    with pytest.raises(UnsupportedError, match="Which of its dimensions is that of the batch"):
        on_replicas(once, tf.function)


@MODES
@pytest.mark.parametrize("size", [4, 8, 3])
def test_a_size_of_its_own(mode: Callable[..., Any], size: int) -> None:
    fixed = [6.0] * size
    assert on_replicas(lambda x: tf.reduce_sum(x[:, 0]) * tf.ones([size]), mode) == [fixed, fixed]


def test_no_multiple_of_the_rows() -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match="first dimension is no multiple"):
        on_replicas(lambda x: tf.boolean_mask(x, x[:, 0] > 0), tf.function)


def _never_traced(x: tf.Tensor) -> tf.Tensor:
    return tf.constant(x.numpy().reshape(-1))


def test_what_cannot_be_told_is_refused() -> None:
    with pytest.raises(UnsupportedError, match=r"shape \(8,\) for a batch of 4 rows"):
        on_replicas(_never_traced, lambda function: function)


def test_sparse_tensors_are_refused() -> None:
    with pytest.raises(UnsupportedError, match="Sparse tensors cannot be gathered"):
        mirrored(2).run(lambda: tfdist.gathered(lambda x, y: x)(tf.ones([2]), tf.sparse.eye(2)))
