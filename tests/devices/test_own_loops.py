"""Loops of one's own with `strategy.run`: what the documentation shows is exact, and means of replicas are told."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.devices.repair_removal import take_out
from tests.exactness.table import numbers
from tests.helpers.marks import slow
from tests.helpers.mirrored import mirrored
from tfdist.errors import UnsupportedError
from tfdist.keras_repairs.base.warn_once import warn_once
from tfdist.runtime.strategy_settings import settings_of

pytestmark = pytest.mark.usefixtures("repaired")

Loss = Callable[[Any, Any], Any]


def squares(y: Any, predicted: Any) -> Any:
    return tf.reduce_mean(tf.square(y - predicted), axis=-1)


def regularized(y: Any, predicted: Any) -> Any:
    penalty = tf.nn.scale_regularization_loss(tf.constant(0.5))
    return tf.nn.compute_average_loss(squares(y, predicted)) + penalty


EXACT: dict[str, Loss] = {
    "average": lambda y, predicted: tf.nn.compute_average_loss(squares(y, predicted)),
    "keras": lambda y, predicted: keras.losses.MeanSquaredError()(y, predicted),
    "regularized": regularized,
}
MEANS: dict[str, Loss] = {
    "mean": lambda y, predicted: tf.reduce_mean(squares(y, predicted)),
    "divided": lambda y, predicted: tf.reduce_mean(squares(y, predicted)) / 3,
}


def losses_of(loss: Loss, strategy: tf.distribute.Strategy, *, drops: bool = False, builds: bool = True) -> list[float]:
    """The losses of two epochs of 20 samples, in batches that do not divide."""
    keras.utils.set_random_seed(12)
    with strategy.scope():
        model = keras.Sequential([*([keras.Input((6,))] if builds else []), keras.layers.Dense(3)])
        optimizer = keras.optimizers.SGD(0.05)

    def on_replica(x: Any, y: Any) -> Any:
        with tf.GradientTape() as tape:
            value = loss(y, model(x, training=True))
        optimizer.apply_gradients(
            zip(tape.gradient(value, model.trainable_variables), model.trainable_variables, strict=True)
        )
        return value

    @tf.function
    def step(batch: Any) -> Any:
        return strategy.reduce("SUM", strategy.run(on_replica, args=batch), axis=None)

    x, _ = numbers(19)
    x = x.astype("float32")
    data = tf.data.Dataset.from_tensor_slices((x, x[:, :3])).batch(9, drop_remainder=drops)
    data = strategy.experimental_distribute_dataset(data)
    return [float(step(batch)) for _ in range(2) for batch in data]


@pytest.fixture
def told(caplog: pytest.LogCaptureFixture) -> Iterator[Callable[[], list[str]]]:
    warn_once.cache_clear()
    logger = logging.getLogger("tfdist")
    logger.addHandler(caplog.handler)
    # pytest may have a record twice, by the root logger's handler, too.
    yield lambda: sorted({one.getMessage() for one in caplog.records if "strategy.run" in one.getMessage()})
    logger.removeHandler(caplog.handler)


@contextlib.contextmanager
def strictly(strategy: tf.distribute.Strategy) -> Iterator[None]:
    settings_of(strategy).strict = True
    try:
        yield
    finally:
        settings_of(strategy).strict = False


@pytest.mark.parametrize("name", ["average", slow("keras"), slow("regularized")])
def test_sums_over_the_global_batch_are_exact_and_not_warned_of(name: str, told: Callable[[], list[str]]) -> None:
    expected = losses_of(EXACT[name], tf.distribute.get_strategy())
    with strictly(mirrored(3)):
        received = losses_of(EXACT[name], mirrored(3))
    np.testing.assert_allclose(received, expected, rtol=2e-5)
    assert told() == []


@pytest.mark.parametrize(("name", "builds"), [("mean", True), slow("mean", False), slow("divided", True)])
def test_means_of_replicas_are_told(name: str, builds: bool, told: Callable[[], list[str]]) -> None:
    assert np.isnan(losses_of(MEANS[name], mirrored(3), builds=builds)[-1])
    (message,) = told()
    assert "gets the gradients of a mean over the samples of each replica" in message
    assert "tf.nn.compute_average_loss" in message


def test_means_of_replicas_are_refused_strictly() -> None:
    warn_once.cache_clear()
    with strictly(mirrored(3)), pytest.raises(UnsupportedError, match=r"strategy\.run.*refused with --strict"):
        losses_of(MEANS["mean"], mirrored(3))


@pytest.mark.slow
def test_batches_that_divide_are_left_alone(told: Callable[[], list[str]]) -> None:
    expected = losses_of(MEANS["mean"], tf.distribute.get_strategy(), drops=True)
    np.testing.assert_allclose(losses_of(MEANS["divided"], mirrored(3), drops=True), expected, rtol=2e-5)
    assert told() == []


@pytest.mark.slow
def test_without_the_repair_nothing_is_told(monkeypatch: pytest.MonkeyPatch, told: Callable[[], list[str]]) -> None:
    take_out("StrategyBase.run", monkeypatch)
    losses_of(MEANS["mean"], mirrored(3))
    assert told() == []


@pytest.mark.parametrize("one_by_one", [False, True])
def test_images_are_equalized_by_their_batch_or_one_by_one(one_by_one: bool) -> None:
    equalize = keras.layers.Equalization(value_range=(0.0, 1.0))
    images = tf.constant(np.random.default_rng(1).uniform(size=(4, 4, 4, 3)), tf.float32)

    def equalized(rows: tf.Tensor, count: int) -> tf.Tensor:
        if not one_by_one:
            return equalize(rows, training=True)
        return tf.stack([equalize(image, training=True) for image in tf.unstack(rows, count)])

    def of_replica() -> tf.Tensor:
        replica = tf.distribute.get_replica_context().replica_id_in_sync_group
        return equalized(images[2 * replica : 2 * replica + 2], 2)

    strategy = mirrored(2)
    pieces = strategy.experimental_local_results(tf.function(strategy.run)(of_replica))
    np.testing.assert_allclose(tf.concat(pieces, axis=0), equalized(images, 4), atol=1e-6)
