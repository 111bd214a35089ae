"""Layers that couple the samples of a batch: what a trial finds, inside of other layers too, and what it leaves."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers, ops

import tfdist
from tests.devices.repair_removal import take_out
from tests.exactness.comparison import assert_same
from tests.exactness.layer_coupling_cases import Centered, CovarianceLoss, Experts, MovingMean, PlainSum, Reversed
from tests.exactness.table import numbers
from tests.helpers.mirrored import mirrored
from tfdist.keras_repairs.base.loss_scope import Kind
from tfdist.keras_repairs.coupling.trials.call_trial import CallVerdict, try_out_layer
from tfdist.runtime.strategy_settings import settings_of

pytestmark = pytest.mark.usefixtures("repaired")


class Block(layers.Layer):
    """Layers within a layer."""

    def __init__(self, *inner: layers.Layer) -> None:
        super().__init__()
        self.inner = list(inner)

    def call(self, inputs: Any, training: bool = False) -> Any:
        for layer in self.inner:
            inputs = layer(inputs, training=training) if _takes_training(layer) else layer(inputs)
        return inputs


def _takes_training(layer: layers.Layer) -> bool:
    return bool(layer._call_has_context_arg.get("training"))


class Folded(layers.Layer):
    """Folds features into rows, and back."""

    def call(self, inputs: Any) -> Any:
        folded = ops.reshape(inputs, (-1, 2))
        return ops.reshape(ops.tanh(folded), (-1, 6)), folded


class Counter(layers.Layer):
    """Assigns what does not depend on the samples."""

    def build(self, shape: Any) -> None:
        self.calls = self.add_weight(shape=(), initializer="zeros", trainable=False)

    def call(self, inputs: Any) -> Any:
        self.calls.assign_add(1.0)
        return inputs * self.calls


class Strict(layers.Layer):
    def call(self, inputs: Any) -> Any:
        raise RuntimeError("only for my own data")


class AddsMaximum(layers.Layer):
    def call(self, inputs: Any) -> Any:
        self.add_loss(ops.max(inputs))
        return inputs


class Averaging(layers.Layer):
    """Assigns the mean of a batch, and uses what it was before."""

    def build(self, shape: Any) -> None:
        self.mean = self.add_weight(shape=(shape[-1],), initializer="zeros", trainable=False)

    def call(self, inputs: Any) -> Any:
        outputs = inputs - self.mean
        self.mean.assign(ops.mean(inputs, axis=0))
        return outputs


INDEPENDENT = CallVerdict()
TRIED = [
    (lambda: Folded(), INDEPENDENT),
    (lambda: Counter(), INDEPENDENT),
    (lambda: PlainSum(), CallVerdict(losses=(Kind.SUM, Kind.MEAN, Kind.ROWS))),
    (lambda: Block(layers.Dense(6), layers.LayerNormalization(), layers.Dropout(0.5)), INDEPENDENT),
    (lambda: Block(layers.BatchNormalization(synchronized=True), layers.Dense(3)), INDEPENDENT),
    # What the layer inside couples is gathered there.
    (lambda: Block(layers.Dense(6), Centered(), layers.Dense(3)), INDEPENDENT),
    (lambda: Block(layers.Dropout(0.5), Block(MovingMean(), layers.Dense(3))), INDEPENDENT),
    (lambda: Experts(), INDEPENDENT),
    (lambda: Experts(compares=True), "returns for a sample"),
    (lambda: Block(Experts(compares=True), layers.Lambda(lambda x: ops.sum(x, 0))), INDEPENDENT),
    (lambda: Centered(), "returns for a sample"),
    (lambda: Reversed(), "returns for a sample"),
    (lambda: MovingMean(), "returns for a sample"),
    (lambda: Averaging(), "assigns to"),
    (lambda: CovarianceLoss(), "gives to add_loss"),
    (lambda: AddsMaximum(), "gives to add_loss"),
    (lambda: layers.Lambda(lambda x: ops.cumsum(x, axis=0)), "returns for a sample"),
    (lambda: Strict(), "could not be tried out"),
]


@pytest.mark.parametrize(("make", "expected"), TRIED)
def test_what_a_trial_finds(make: Any, expected: CallVerdict | str) -> None:
    layer = make()
    layer.build((None, 6))
    for inner in getattr(layer, "inner", []):
        inner.build((None, 6))
        for innermost in getattr(inner, "inner", []):
            innermost.build((None, 6))
            innermost.built = True
        inner.built = True
    layer.built = True
    before = [np.asarray(variable.value).tolist() for variable in layer.variables]
    call = keras.layers.Layer.__call__
    verdict = try_out_layer(layer, lambda *args, **kwargs: call(layer, *args, **kwargs), *called_with(layer))
    assert [np.asarray(variable.value).tolist() for variable in layer.variables] == before
    assert not layer.losses
    if isinstance(expected, str):
        assert expected in verdict.reason
    else:
        assert verdict == expected


def called_with(layer: layers.Layer) -> tuple[tuple[Any, ...], dict[str, Any]]:
    inputs = tf.ones((5, 6))
    return (inputs,), {"training": True} if _takes_training(layer) else {}


def fitted(make: Callable[[], layers.Layer]) -> dict[str, Any]:
    keras.utils.set_random_seed(11)
    x, y = numbers(33)
    model = keras.Sequential([keras.Input((6,)), layers.Dense(6), make(), layers.Dense(3, "softmax")])
    model.compile(keras.optimizers.SGD(0.1), "sparse_categorical_crossentropy")
    history = model.fit(x, y, batch_size=32, epochs=2, shuffle=False, verbose=0).history
    return {"history": history, "weights": [weight.tolist() for weight in model.get_weights()]}


def test_the_innermost_layer_alone_is_gathered(float64: None, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "tfdist")

    def block() -> layers.Layer:
        return Block(layers.Dense(6), Centered(name="the_centered"), layers.Dense(6, activation="tanh"))

    expected = fitted(block)
    with mirrored(3).scope():
        assert_same(expected, fitted(block))
    said = [record.message for record in caplog.records if "gathered in each step" in record.message]
    assert len(said) == 1
    assert "'the_centered' (Centered)" in said[0]


def test_a_metric_inside_counts_each_sample_once(float64: None) -> None:
    class Watched(Centered):
        def __init__(self) -> None:
            super().__init__()
            self.total = keras.metrics.Sum(name="total")

        def call(self, inputs: Any) -> Any:
            self.total.update_state(ops.abs(inputs))
            return super().call(inputs)

    expected = fitted(Watched)
    with mirrored(3).scope():
        assert_same(expected, fitted(Watched))


def test_it_can_be_switched_off(float64: None, caplog: pytest.LogCaptureFixture) -> None:
    expected = fitted(Centered)
    settings_of(mirrored(3)).gather = False
    try:
        with mirrored(3).scope():
            assert fitted(Centered)["history"] != expected["history"]
    finally:
        settings_of(mirrored(3)).gather = True
    assert any("gather: off" in record.message for record in caplog.records)


def test_without_the_repair_it_has_other_numbers(float64: None, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = fitted(Centered)
    take_out("Layer.__call__", monkeypatch)
    with mirrored(3).scope(), pytest.raises(AssertionError):
        assert_same(expected, fitted(Centered))


def test_a_declared_layer_is_not_tried_out(float64: None, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "tfdist")
    expected = fitted(lambda: Block(layers.Dense(6), MovingMean()))
    with mirrored(3).scope():
        assert_same(expected, fitted(lambda: tfdist.gathered(Block(layers.Dense(6), MovingMean()))))
    assert not [record for record in caplog.records if "gathered in each step" in record.message]


def test_a_declared_layer_is_saved_and_loaded(tmp_path: Path) -> None:
    x, _ = numbers(33)
    with mirrored(2).scope():
        inner = keras.Sequential([keras.Input((6,)), layers.Dense(4), Centered()])
        model = keras.Sequential([keras.Input((6,)), tfdist.gathered(inner), layers.Dense(3)])
        model.compile("sgd", "mse")
        model.fit(x, x[:, :3], verbose=0)
        model.save(tmp_path / "model.keras")
        said = model.evaluate(x, x[:, :3], batch_size=33, verbose=0)
        assert keras.saving.load_model(tmp_path / "model.keras").evaluate(x, x[:, :3], batch_size=33, verbose=0) == said
    alone = keras.saving.load_model(tmp_path / "model.keras")
    assert len(alone.weights) == 4
    assert alone.evaluate(x, x[:, :3], batch_size=33, verbose=0) == pytest.approx(said)
