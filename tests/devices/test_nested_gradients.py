"""Penalties on gradients, which are gradients of gradients, through batch statistics and gathered functions."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers, ops

import tfdist
from tests.exactness.comparison import assert_same
from tests.exactness.table import numbers
from tests.helpers.marks import slow
from tests.helpers.mirrored import mirrored, strictly
from tfdist.errors import UnsupportedError
from tfdist.keras_repairs.coupling.trials.steps import step_methods
from tfdist.runtime.strategy_settings import settings_of

pytestmark = pytest.mark.usefixtures("repaired", "float64")


def spread(x: Any) -> Any:
    """The features, and beside them how far the batch spreads, as a critic looks at it."""
    deviation = ops.sqrt(ops.var(x, axis=0, keepdims=True) + 1e-3)
    return ops.concatenate([x, x * deviation], axis=1)


class Critic(keras.Model):
    """Trained with a penalty on its gradient by its inputs, as of WGAN-GP."""

    def __init__(self, couples: str) -> None:
        super().__init__()
        self.first, self.last = layers.Dense(4, activation="tanh"), layers.Dense(1)
        self.normalization = layers.BatchNormalization() if couples == "statistics" else None
        self.couples = couples

    def call(self, x: Any, training: bool = False) -> Any:
        hidden = self.first(x)
        if self.normalization is not None:
            hidden = self.normalization(hidden, training=training)
        else:
            hidden = tfdist.gathered(spread)(hidden)
        return self.last(hidden)

    def penalty(self, x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            score = self(x, training=True)
        return ops.mean(ops.square(ops.sqrt(ops.sum(ops.square(tape.gradient(score, x)), axis=1) + 1e-6) - 1.0))

    def train_step(self, data: Any) -> dict[str, Any]:
        x, _ = data
        with tf.GradientTape() as tape:
            penalty = tfdist.gathered(self.penalty)(x) if self.couples == "inside" else self.penalty(x)
            loss = ops.mean(self(x, training=True)) + 3.0 * penalty
        gradients = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply(gradients, self.trainable_variables)
        return {"total": loss}


def trained(couples: str, samples: int, kind: type[Critic] = Critic) -> dict[str, Any]:
    keras.utils.set_random_seed(11)
    x, y = numbers(samples)
    model = kind(couples)
    model.compile(keras.optimizers.SGD(0.05))
    history = model.fit(x, y, batch_size=32, epochs=2, shuffle=False, verbose=0).history
    return {"history": history, "weights": [weight.tolist() for weight in model.get_weights()]}


@pytest.mark.parametrize("couples", ["statistics", slow("function")])
def test_equal_shares_need_not_be_gathered(couples: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(step_methods, "_own_methods", lambda model: [])
    expected = trained(couples, 64)
    with mirrored(2).scope(), strictly(mirrored(2)):
        assert_same(expected, trained(couples, 64))


@pytest.mark.parametrize(("couples", "samples"), [("statistics", 65), slow("function", 65), slow("function", 64)])
def test_its_method_is_gathered_where_shares_differ(couples: str, samples: int) -> None:
    expected = trained(couples, samples)
    with mirrored(3).scope(), strictly(mirrored(3)):
        assert_same(expected, trained(couples, samples))


def test_without_a_trial_other_shares_are_refused() -> None:
    settings_of(mirrored(3)).gather = False
    try:
        with mirrored(3).scope(), pytest.raises(tf.errors.InvalidArgumentError, match="gradient of a gradient"):
            trained("statistics", 65)
    finally:
        settings_of(mirrored(3)).gather = True


class InStep(Critic):
    """Takes the penalty in the step itself."""

    def train_step(self, data: Any) -> dict[str, Any]:
        x, _ = data
        with tf.GradientTape() as tape:
            with tf.GradientTape() as inner:
                inner.watch(x)
                score = self(x, training=True)
            loss = ops.mean(score) + ops.mean(ops.sum(ops.square(inner.gradient(score, x)), axis=1))
        gradients = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply(gradients, self.trainable_variables)
        return {"total": loss}


@pytest.mark.parametrize("couples", [slow("statistics"), "function"])
def test_a_step_of_one_piece_runs_whole_where_shares_differ(couples: str) -> None:
    expected = trained(couples, 65, InStep)
    with mirrored(2).scope():
        assert_same(expected, trained(couples, 65, InStep))
    with mirrored(2).scope(), strictly(mirrored(2)), pytest.raises(UnsupportedError, match="as many samples"):
        trained(couples, 65, InStep)


def test_batches_of_a_dataset_without_remainder_are_known_to_divide() -> None:
    def of_dataset() -> Any:
        keras.utils.set_random_seed(11)
        model = InStep("function")
        model.compile(keras.optimizers.SGD(0.05))
        data = tf.data.Dataset.from_tensor_slices(numbers(65)).batch(32, drop_remainder=True)
        return model.fit(data, epochs=2, verbose=0).history

    expected = of_dataset()
    with mirrored(2).scope(), strictly(mirrored(2)):
        assert_same(expected, of_dataset())


@pytest.mark.parametrize("eagerly", [False, slow(True)])
def test_batches_of_both_kinds_in_one_training(eagerly: bool) -> None:
    """Two fits of one model: of batches that divide, and of those that do not."""

    def trained_twice() -> Any:
        keras.utils.set_random_seed(11)
        model = Critic("statistics")
        model.compile(keras.optimizers.SGD(0.05), run_eagerly=eagerly)
        losses = [model.fit(*numbers(count), batch_size=32, shuffle=False, verbose=0).history for count in (64, 65, 64)]
        return {"history": losses, "weights": [weight.tolist() for weight in model.get_weights()]}

    expected = trained_twice()
    with mirrored(2).scope():
        assert_same(expected, trained_twice())


def test_the_remedy() -> None:
    expected = trained("inside", 65)
    with mirrored(3).scope():
        assert_same(expected, trained("inside", 65))


class Balancing(Critic):
    """Something else in the step takes the samples together, by hand."""

    def penalty(self, x: Any) -> Any:
        return super().penalty(x) + ops.square(ops.mean(self(x, training=True)))


def test_what_else_couples_the_samples_in_its_method_is_gathered() -> None:
    expected = trained("function", 64, Balancing)
    with mirrored(2).scope(), strictly(mirrored(2)):
        assert_same(expected, trained("function", 64, Balancing))


def test_what_else_couples_the_samples_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(step_methods, "_own_methods", lambda model: [])
    refused = pytest.raises(UnsupportedError, match="gets as gradients.*neither a mean nor a sum")
    with mirrored(2).scope(), strictly(mirrored(2)), refused:
        trained("function", 64, Balancing)


class PenaltyOfLoss(keras.Model):
    def train_step(self, data: Any) -> dict[str, Any]:
        x, y = data
        with tf.GradientTape() as outer:
            with tf.GradientTape() as tape:
                tape.watch(x)
                loss = keras.losses.Dice()(y, self(x, training=True))
            loss += ops.mean(ops.square(tape.gradient(loss, x)))
        outer.gradient(loss, self.trainable_variables)
        return {"total": loss}


def penalized() -> list[float]:
    keras.utils.set_random_seed(11)
    inputs = keras.Input((6,))
    model = PenaltyOfLoss(inputs, layers.Dense(6, activation="sigmoid")(inputs))
    model.compile("sgd")
    x, _ = numbers(32)
    return list(model.fit(x, x, verbose=0).history["total"])


def test_a_step_that_takes_it_of_a_gathered_loss_runs_whole() -> None:
    expected = penalized()
    with mirrored(2).scope():
        np.testing.assert_allclose(penalized(), expected, rtol=1e-5)
