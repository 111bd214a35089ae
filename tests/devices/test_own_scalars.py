"""Losses and metrics of one's own that give no value a sample: as means over the samples they are exact."""

from __future__ import annotations

from typing import Any

import keras
import pytest
from keras import layers, ops

from tests.devices.mirrored import mirrored
from tests.exactness.comparing import assert_same
from tests.exactness.table import numbers

pytestmark = pytest.mark.usefixtures("repaired", "float64")

SAMPLES = 65
"""In batches of 32: the last one is one sample, and two of three replicas have none."""


class Scaled(layers.Layer):
    """Adds a mean over the batch, times a weight that is learned."""

    def build(self, shape: Any) -> None:
        self.scale = self.add_weight(shape=(), initializer="ones", regularizer="l2")

    def call(self, x: Any) -> Any:
        self.add_loss(self.scale * ops.mean(ops.square(x)))
        return x


def fitted(*last: layers.Layer, compiled: dict[str, Any], **fit: Any) -> dict[str, Any]:
    keras.utils.set_random_seed(11)
    x, _ = numbers(SAMPLES)
    model = keras.Sequential([keras.Input((6,)), layers.Dense(3, kernel_regularizer="l2"), *last])
    model.compile(keras.optimizers.SGD(0.1), **compiled)
    history = model.fit(x, x[:, :3] ** 2, batch_size=32, shuffle=False, verbose=0, **fit).history
    return {"history": history, "weights": [weight.tolist() for weight in model.get_weights()]}


def assert_as_one_replica(*last: type[layers.Layer], compiled: dict[str, Any], **fit: Any) -> None:
    expected = fitted(*(layer() for layer in last), compiled=compiled, **fit)
    with mirrored(3).scope():
        assert_same(expected, fitted(*(layer() for layer in last), compiled=compiled, **fit))


def test_what_is_learned_beside_a_mean_over_no_sample() -> None:
    """Its gradient on a replica without a sample is that mean, NaN; of regularizers nothing is lost with it."""
    assert_as_one_replica(Scaled, compiled={"loss": "mse"})
