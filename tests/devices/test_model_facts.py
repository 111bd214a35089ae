"""Facts of a model that decide what may differ between replicas."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import pytest

from tests.helpers.mirrored import mirrored, of_each_replica
from tfdist.keras_repairs.model_checks.model_facts import is_random, model_facts


class OwnStep(keras.Model):
    def train_step(self, data: Any) -> Any:
        return super().train_step(data)


@pytest.mark.parametrize(
    ("layer", "draws"),
    [
        (lambda: keras.layers.Dropout(0.5), True),
        (lambda: keras.layers.Dropout(0.0), False),
        (lambda: keras.layers.GaussianNoise(0.1), True),
        (lambda: keras.layers.SpatialDropout1D(0.1), True),
        (lambda: keras.layers.Dense(1), False),
        (lambda: keras.layers.LSTM(1), False),
        (lambda: keras.layers.LSTM(1, recurrent_dropout=0.5), True),
    ],
)
def test_layers_that_draw(layer: Callable[[], keras.layers.Layer], draws: bool) -> None:
    assert any(is_random(part) for part in keras.Sequential([layer()])._flatten_layers()) == draws


def test_facts() -> None:
    inputs = keras.Input((4,))
    normalized = keras.layers.BatchNormalization(name="free")(inputs)
    normalized = keras.layers.BatchNormalization(name="synchronized", synchronized=True)(normalized)
    normalized = keras.layers.BatchNormalization(name="frozen", trainable=False)(normalized)
    outputs = keras.layers.Dense(1, dtype="mixed_bfloat16")(normalized)
    model = OwnStep(inputs, outputs)
    model.compile(keras.optimizers.SGD(gradient_accumulation_steps=2), "mse", steps_per_execution=3)
    facts = model_facts(model)
    assert facts["unsynchronized"] == []
    assert facts["overrides"] == ["OwnStep.train_step"]
    assert facts["compute_dtypes"] == ["bfloat16", "float32"]
    assert (facts["steps_per_execution"], facts["accumulates"], facts["jit_compile"]) == (3, True, False)
    assert "free/moving_mean" in facts["non_trainable"]


def test_statistics_of_each_replica() -> None:
    names = ("free", "synchronized", "frozen")
    with mirrored(2).scope():
        free, synchronized, frozen = (keras.layers.BatchNormalization(name=name) for name in names)
        synchronized.synchronized, frozen.trainable = True, False
        model = keras.Sequential([keras.Input((4,)), free, synchronized, frozen])
        model.compile("sgd", "mse")
        assert model_facts(model)["unsynchronized"] == []
        with of_each_replica(mirrored(2)):
            assert model_facts(model)["unsynchronized"] == ["free"]
