"""Dropout in a loop of one's own: another mask on each replica, the same ones for the same seed."""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfdist
from tests.devices.fresh_repairs import put_in
from tests.devices.repair_removal import take_out
from tests.helpers.marks import slow
from tests.helpers.mirrored import mirrored
from tfdist import keras_repairs
from tfdist.keras_repairs.repair import RepairHooks


def masks(replicas: int, seed: int) -> list[list[float]]:
    """What each replica's dropout leaves of a row of ones, in two steps one after the other."""
    keras_repairs.install()
    keras.utils.set_random_seed(seed)
    strategy = mirrored(replicas)
    with strategy.scope():
        dropout = keras.layers.Dropout(0.5)
        dropout(tf.ones((1, 64)), training=True)

        @tf.function
        def step() -> tf.Tensor:
            return strategy.run(lambda: dropout(tf.ones((1, 64)), training=True)[0])

        steps = [strategy.experimental_local_results(step()) for _ in range(2)]
    return [value.numpy().tolist() for step in steps for value in step]


@pytest.mark.parametrize("replicas", [slow(2), 3])
def test_each_replica_and_step_has_its_own_mask(replicas: int) -> None:
    drawn = masks(replicas, seed=3)
    assert len({tuple(mask) for mask in drawn}) == 2 * replicas
    assert 0.3 < np.mean(np.asarray(drawn) == 0) < 0.7


def test_the_seed_decides() -> None:
    assert masks(2, seed=3) == masks(2, seed=3)
    assert masks(2, seed=3) != masks(2, seed=4)


def dropped(replicas: int) -> list[list[float]]:
    """What a gathered dropout leaves of the rows of a batch, in two steps of a loop of one's own."""
    keras_repairs.install()
    keras.utils.set_random_seed(3)
    x = np.random.default_rng(5).uniform(1, 2, (5, 8)).astype("float32")
    strategy = mirrored(replicas) if replicas > 1 else tf.distribute.get_strategy()
    pieces = np.array_split(x, replicas)
    with strategy.scope():
        dropout = tfdist.gathered(keras.layers.Dropout(0.5))
        dropout(x[:1])

        @tf.function
        def step() -> tf.Tensor:
            rows = strategy.experimental_distribute_values_from_function(
                lambda context: tf.constant(pieces[context.replica_id_in_sync_group])
            )
            return strategy.run(lambda rows: dropout(rows, training=True), [rows])

        steps = [strategy.experimental_local_results(step()) for _ in range(2)]
    return np.concatenate([part for parts in steps for part in parts]).tolist()


def test_a_gathered_layer_drops_what_one_device_would() -> None:
    assert dropped(2) == dropped(1)


def test_a_seed_of_one_operation_draws_as_without_tfdist(monkeypatch: pytest.MonkeyPatch) -> None:
    """A script that seeds nothing else has the numbers of no run: they are the same in all of them."""

    def drawn() -> list[list[float]]:
        shuffled = tf.data.Dataset.range(8).shuffle(8, seed=5)
        return [tf.random.normal([2], seed=5).numpy().tolist(), [float(number) for number in shuffled]]

    keras_repairs.install()
    take_out("tensorflow.python.framework.random_seed.get_seed", monkeypatch)
    tf.random.set_seed(None)
    expected = drawn()
    put_in(RepairHooks(imposed_seed=9), monkeypatch)
    tf.random.set_seed(9)
    try:
        assert drawn() == expected
        assert tf.random.normal([2]).numpy().tolist() != expected[0]
    finally:
        tf.random.set_seed(None)
