"""Metrics that a layer updates in its call keep their own precision in mixed precision."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.helpers.mirrored import mirrored

pytestmark = pytest.mark.usefixtures("repaired")


class Measuring(keras.layers.Layer):
    """Counts samples: more than float16 has whole numbers for."""

    def __init__(self) -> None:
        super().__init__()
        self.size = keras.metrics.Mean(name="size")
        self.seen = keras.metrics.Sum(name="seen")

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        self.size.update_state(tf.reduce_sum(tf.square(inputs), axis=-1))
        self.seen.update_state(100.0 * tf.ones(tf.shape(inputs)[:1]))
        return inputs


def history() -> dict[str, Any]:
    """That of 65 samples in batches of 32, of which the last has one: two of three replicas have none of it."""
    keras.utils.set_random_seed(1)
    keras.config.set_dtype_policy("mixed_float16")
    model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(8, "tanh"), Measuring(), keras.layers.Dense(3)])
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    x, y = np.random.default_rng(0).normal(size=(65, 6)), np.arange(65) % 3
    found: dict[str, Any] = model.fit(x, y, batch_size=32, epochs=2, shuffle=False, verbose=0).history
    return found


def test_several_replicas_have_the_metrics_of_one() -> None:
    policy = keras.config.dtype_policy()
    try:
        one = history()
        with mirrored(3).scope():
            several = history()
    finally:
        keras.config.set_dtype_policy(policy)
    assert several["seen"] == one["seen"] == [6500.0, 6500.0]
    assert one.keys() == several.keys()
    for name, values in one.items():
        np.testing.assert_allclose(several[name], values, rtol=1e-3, err_msg=name)
