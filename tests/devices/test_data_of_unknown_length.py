"""Data with an unknown number of batches, which are fetched outside of compiled steps, gives the same numbers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.exactness.comparison import assert_same

pytestmark = pytest.mark.usefixtures("repaired", "float64")

SAMPLES, BATCH = 31, 7
STEPS = -(-SAMPLES // BATCH)


def samples() -> tuple[np.ndarray, tuple[np.ndarray, np.ndarray]]:
    generator = np.random.default_rng(3)
    x, first, second = (generator.normal(size=(SAMPLES, size)) for size in (6, 2, 2))
    return x, (first, second)


def history(strategy: tf.distribute.Strategy, *data: Any, **options: Any) -> dict[str, list[float]]:
    keras.utils.set_random_seed(1)
    with strategy.scope():
        inputs = keras.Input((6,))
        hidden = keras.layers.Dense(5, activation="tanh")(inputs)
        outputs = [keras.layers.Dense(2, name=name)(hidden) for name in ("first", "second")]
        model = keras.Model(inputs, outputs)
        model.compile("sgd", ["mse", keras.losses.MeanSquaredError(reduction="sum")], metrics=[["mae"], ["mse"]])
        return dict(model.fit(*data, epochs=2, verbose=0, shuffle=False, **options).history)


def batches() -> Iterator[tuple[np.ndarray, tuple[np.ndarray, np.ndarray]]]:
    x, (first, second) = samples()
    while True:
        for start in range(0, SAMPLES, BATCH):
            rows = slice(start, start + BATCH)
            yield x[rows], (first[rows], second[rows])


def dataset_of_unknown_length() -> tf.data.Dataset:
    return tf.data.Dataset.from_tensor_slices(samples()).batch(BATCH).filter(lambda x, y: True)


def test_losses_of_several_outputs(strategy: tf.distribute.Strategy) -> None:
    """Keras counts each of them once a batch, unless it knows the rows, as in a step traced with the first batch."""
    expected = history(strategy, *samples(), batch_size=BATCH)
    assert_same(expected, history(strategy, batches(), steps_per_epoch=STEPS))
    assert_same(expected, history(strategy, dataset_of_unknown_length()))


@pytest.mark.parametrize("one", [tf.distribute.OneDeviceStrategy, tf.distribute.MirroredStrategy])
def test_under_a_strategy_of_one_device(one: type[tf.distribute.Strategy]) -> None:
    """Its iterators are TensorFlow's distributed ones, and its batches those of a device."""
    expected = history(tf.distribute.get_strategy(), dataset_of_unknown_length())
    assert_same(
        expected,
        history(one("CPU:0" if one is tf.distribute.OneDeviceStrategy else ["CPU:0"]), dataset_of_unknown_length()),
    )
