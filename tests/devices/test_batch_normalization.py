"""Batch statistics on several replicas: what the table of exact features does not show."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.exactness.comparison import assert_same
from tests.exactness.table import numbers
from tests.helpers.marks import slow
from tests.helpers.mirrored import mirrored, of_each_replica
from tfdist.keras_repairs.base.replica_step import ReplicaStep, replica_step
from tfdist.keras_repairs.base.step_records import BatchShare
from tfdist.keras_repairs.base.warn_once import warn_once
from tfdist.keras_repairs.forward import batch_moments
from tfdist.runtime.transport import replica_sums

pytestmark = pytest.mark.usefixtures("repaired")

REPLICAS = 3
ROWS = np.random.default_rng(1).normal(size=(7, 4, 2)) + 3
VALID = np.random.default_rng(2).random((7, 4)) < 0.6
PIECES = ((0, 4), (4, 4), (4, 7))
"""The replicas' rows; the second has none."""

Outcome = tuple[list[np.ndarray], list[np.ndarray]]


def on_replicas(compute: Callable[[int], Any], eagerly: bool = False) -> list[Any]:
    """What each replica computes, by its number."""

    def run() -> Any:
        def on_replica() -> Any:
            replica = tf.distribute.get_replica_context().replica_id_in_sync_group
            return compute(int(tf.get_static_value(replica)))

        return mirrored(REPLICAS).run(on_replica)

    outputs = run() if eagerly else tf.function(run, autograph=False)()
    return [
        tf.nest.map_structure(lambda value, place=place: value.values[place].numpy(), outputs)
        for place in range(REPLICAS)
    ]


def layer_of(**options: Any) -> keras.layers.BatchNormalization:
    layer = keras.layers.BatchNormalization(dtype="float64", momentum=0.5, **options)
    layer.build(ROWS.shape)
    return layer


def loss_of(outputs: tf.Tensor, rows: slice) -> tf.Tensor:
    weights = np.random.default_rng(3).normal(size=ROWS.shape)
    return tf.reduce_sum(tf.square(outputs) * outputs * weights[rows])


def normalized(layer: Any, x: tf.Tensor, mask: Any, rows: slice) -> tuple[tf.Tensor, tf.Tensor]:
    """The outputs, and the gradient of the loss by the inputs."""
    with tf.GradientTape() as tape:
        tape.watch(x)
        outputs = layer(x, training=True, mask=mask)
        loss = loss_of(outputs, rows)
    return outputs, tape.gradient(loss, x)


@pytest.mark.parametrize("eagerly", [False, True])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("axis", [-1, 1])
def test_a_loop_of_ones_own(axis: int, masked: bool, eagerly: bool) -> None:
    """Each replica's loss is its summand, as in TensorFlow's guides."""
    whole, layer = layer_of(axis=axis), None
    mask = tf.constant(VALID) if masked else None
    expected = normalized(whole, tf.constant(ROWS), mask, slice(0, 7))
    with mirrored(REPLICAS).scope():
        layer = layer_of(axis=axis)

        def on_replica(place: int) -> Any:
            rows = slice(*PIECES[place])
            return normalized(layer, tf.constant(ROWS[rows]), None if mask is None else mask[rows], rows)

        received = on_replicas(on_replica, eagerly)
    for number in range(2):
        np.testing.assert_allclose(np.concatenate([of[number] for of in received]), expected[number], atol=1e-12)
    for own, one in zip(layer.weights, whole.weights, strict=True):
        copies = mirrored(REPLICAS).experimental_local_results(own.value)
        for copy in copies:
            np.testing.assert_array_equal(copy.numpy(), copies[0].numpy())
        np.testing.assert_allclose(copies[0].numpy(), one.numpy(), rtol=1e-12)


@pytest.mark.parametrize("synchronized", [False, True])
def test_gradients_of_gradients(synchronized: bool) -> None:
    """As a penalty on gradients takes them. Keras's own differ by whether the layer is synchronized."""

    def twice(layer: Any, x: tf.Tensor, rows: slice) -> tf.Tensor:
        with tf.GradientTape() as outer:
            outer.watch(x)
            _, gradient = normalized(layer, x, None, rows)
            penalty = tf.reduce_sum(tf.square(gradient))
        return outer.gradient(penalty, x)

    expected = twice(layer_of(synchronized=synchronized), tf.constant(ROWS), slice(0, 7))
    with mirrored(REPLICAS).scope():
        layer = layer_of(synchronized=synchronized)
        pieces = [slice(*piece) for piece in PIECES]
        received = on_replicas(lambda place: twice(layer, tf.constant(ROWS[pieces[place]]), pieces[place]))
    np.testing.assert_allclose(np.concatenate(received), expected, atol=1e-10)


@pytest.mark.parametrize("users", [False, True])
def test_a_row_that_stands_in_for_no_sample_counts_nowhere(users: bool) -> None:
    """It may be anything; NaN shows the most."""
    weights = np.array([4, 0, 3]) / 7 if users else np.ones(REPLICAS)
    whole = layer_of()
    outputs, gradient = normalized(whole, tf.constant(ROWS), None, slice(0, 7))
    with mirrored(REPLICAS).scope():
        layer = layer_of()

        def on_replica(place: int) -> Any:
            first, end = PIECES[place]
            rows = slice(first, end) if end > first else slice(0, 1)
            x = tf.constant(ROWS[rows] * (1 if end > first else np.nan))
            known = {"samples": end - first, "rows": max(end - first, 1), "first": first, "total": 7, "counting": 2}
            numbers_of_step = {name: tf.constant(number, tf.int64) for name, number in known.items()}
            with replica_step(ReplicaStep(BatchShare(**numbers_of_step), users=users)):
                with tf.GradientTape() as tape:
                    tape.watch(x)
                    result = layer(x, training=True)
                    loss = loss_of(result, rows) / max(weights[place], 1e-9)
                return result, tape.gradient(loss, x) * weights[place]

        received = on_replicas(on_replica)
    for number, one in enumerate((outputs, gradient)):
        several = np.concatenate([received[place][number] for place in (0, 2)])
        np.testing.assert_allclose(several, one, atol=1e-12)
    assert_same([weight.numpy().tolist() for weight in whole.weights], [w.numpy().tolist() for w in layer.weights])


def collectives(monkeypatch: pytest.MonkeyPatch) -> list[Sequence[Any]]:
    """The collectives of the first replica, as they are traced."""
    seen: list[Sequence[Any]] = []

    def noting(tensors: Sequence[Any], original: Callable[..., Any] = replica_sums.sum_over_replicas) -> Any:
        if int(tf.get_static_value(tf.distribute.get_replica_context().replica_id_in_sync_group)) == 0:
            seen.append(tensors)
        return original(tensors)

    monkeypatch.setattr(batch_moments.replica_sums, "sum_over_replicas", noting)
    return seen


@pytest.mark.parametrize("masked", [False, True])
def test_one_collective_forward_and_one_backward(masked: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = collectives(monkeypatch)
    mask = tf.constant(VALID) if masked else None
    with mirrored(REPLICAS).scope():
        layer = layer_of()
        on_replicas(lambda place: layer(tf.constant(ROWS), training=True, mask=mask))
        assert [len(tensors) for tensors in seen] == [1]
        del seen[:]
        on_replicas(lambda place: normalized(layer, tf.constant(ROWS), mask, slice(0, 7)))
        assert [len(tensors) for tensors in seen] == [1, 1]


def test_no_collective_of_what_is_not_trained(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = collectives(monkeypatch)
    with mirrored(REPLICAS).scope():
        frozen, layer = layer_of(trainable=False), layer_of()
        on_replicas(lambda place: [frozen(tf.constant(ROWS), training=True), layer(tf.constant(ROWS))])
    assert seen == []


@pytest.mark.parametrize("shift", [0.0, 1e3, 1e5])
def test_digits_of_a_variance_around_a_large_mean(shift: float) -> None:
    """As many as TensorFlow has on one device."""
    x = (np.random.default_rng(1).normal(size=(96, 5)) + shift).astype("float32")
    exact = np.var(x.astype("float64"), axis=0)
    own = np.abs(tf.nn.moments(tf.constant(x), [0])[1] / exact - 1).max()
    with mirrored(REPLICAS).scope():
        moments = on_replicas(lambda place: keras.ops.moments(tf.constant(x[32 * place : 32 * (place + 1)]), 0,
                                                              synchronized=True))  # fmt: skip
    for _, variance in moments:
        assert np.abs(variance / exact - 1).max() <= max(2 * own, 1e-6)


def model_of(**options: Any) -> keras.Model:
    parts = [keras.layers.BatchNormalization(), keras.layers.Dense(3, activation="softmax")]
    model = keras.Sequential([keras.Input((6,)), *parts])
    model.compile("sgd", "sparse_categorical_crossentropy", **options)
    return model


@pytest.mark.parametrize("jit_compile", [False, slow(True)])
def test_each_replica_has_its_own_statistics_when_asked(jit_compile: bool) -> None:
    x, y = (part[:33] for part in numbers(65))
    with mirrored(REPLICAS).scope(), of_each_replica(mirrored(REPLICAS)):
        model = model_of(jit_compile=jit_compile)
        # The last batch has one sample; that of the first replica, whose statistics are read, is of the first batch.
        model.fit(x.astype("float32"), y, batch_size=32, epochs=1, shuffle=False, verbose=0)
        first, last = 11, 10
        values = [mirrored(REPLICAS).experimental_local_results(w.value) for w in model.layers[0].non_trainable_weights]
    means = [copy.numpy() for copy in values[0]]
    assert all(np.isfinite(copy.numpy()).all() for copies in values for copy in copies)
    # Without a sample of the second batch the last replica's average stays as the first batch has left it.
    np.testing.assert_allclose(means[2], 0.01 * x[first + first : 32].mean(axis=0), rtol=1e-4)
    assert len(x[first + first : 32]) == last


def test_saved_as_on_one_device(tmp_path: Path) -> None:
    x, y = numbers(8)
    with mirrored(REPLICAS).scope():
        model = model_of()
        model.fit(x.astype("float32"), y, verbose=0)
        model.save(tmp_path / "model.keras")
    layer = keras.models.load_model(tmp_path / "model.keras").layers[0]
    assert layer.synchronized is False


def test_what_xla_does_not_compile_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    x, y = numbers(8)
    warn_once.cache_clear()
    with mirrored(REPLICAS).scope(), caplog.at_level(logging.WARNING, "tfdist"):
        model = model_of(jit_compile=True)
        for _ in range(2):
            model.fit(x.astype("float32"), y, verbose=0)
    assert len([record for record in caplog.records if "is not compiled with XLA" in record.message]) == 1


def test_a_layer_adds_less_than_twice_the_operations_that_it_has_on_one_replica() -> None:
    """TensorFlow takes about as long to compile a step as there are operations in it."""

    def operations(layers: int, strategy: tf.distribute.Strategy) -> int:
        with strategy.scope():
            made = [keras.layers.BatchNormalization() for _ in range(layers)]
            for layer in made:
                layer.build((None, 4))

        def gradient(x: tf.Tensor) -> tf.Tensor:
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = x
                for layer in made:
                    y = layer(y, training=True)
            return tape.gradient(y, x)

        step = tf.function(lambda x: strategy.run(gradient, args=(x,)), autograph=False)
        return len(step.get_concrete_function(tf.TensorSpec([None, 4])).graph.get_operations())

    several, one = mirrored(REPLICAS), tf.distribute.get_strategy()
    added = (operations(2, several) - operations(1, several)) / REPLICAS
    assert added < 2 * (operations(2, one) - operations(1, one))
