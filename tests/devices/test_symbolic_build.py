"""Data of scripts that make a strategy: Keras takes a batch of them before each training and evaluation."""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.helpers.mirrored import mirrored
from tfdist.runtime.strategy_settings import settings_of

pytestmark = pytest.mark.usefixtures("repaired")


def outcome() -> list[float]:
    keras.utils.set_random_seed(3)
    x = np.random.default_rng(1).normal(size=(50, 6)).astype("float32")
    data = tf.data.Dataset.from_tensor_slices((x, x.sum(1, keepdims=True))).shuffle(50).batch(16)
    model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    history = model.fit(data, validation_data=data.take(2), epochs=2, verbose=0).history
    return [*history["loss"], *history["val_loss"], model.evaluate(data.take(2), verbose=0)]


def test_they_are_in_the_order_that_one_device_has_them_in(monkeypatch: pytest.MonkeyPatch) -> None:
    with tf.distribute.MirroredStrategy(["CPU:0"]).scope():
        expected = outcome()
    monkeypatch.setattr(settings_of(mirrored(2)), "made_by_script", True)
    with mirrored(2).scope():
        np.testing.assert_allclose(outcome(), expected, rtol=1e-5)


def test_a_strategy_of_the_run_takes_none() -> None:
    expected = outcome()
    with mirrored(2).scope():
        np.testing.assert_allclose(outcome(), expected, rtol=1e-5)
