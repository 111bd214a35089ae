"""What the user's steps keep in variables: the same on every replica as on one, or refused before the first step."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers, ops

import tfdist
from tests.exactness.table import numbers
from tests.helpers.marks import slow
from tests.helpers.mirrored import mirrored, strictly
from tfdist.errors import UnsupportedError

pytestmark = pytest.mark.usefixtures("repaired")


class Keeping(keras.Model):
    """A step that keeps something of its samples."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.kept = self.made()

    def made(self) -> Any:
        return tf.Variable(tf.zeros(6), trainable=False, name="kept_mean")

    def keep(self, x: Any) -> None:
        self.kept.assign(0.9 * self.kept + 0.1 * tf.reduce_mean(x, axis=0))

    def train_step(self, data: Any) -> dict[str, Any]:
        x, y = data
        with tf.GradientTape() as tape:
            loss = ops.mean(ops.square(self(x, training=True)[:, 0] - ops.cast(y, "float32")))
        self.optimizer.apply(tape.gradient(loss, self.trainable_variables), self.trainable_variables)
        self.keep(x)
        return {"loss": loss}


class CountingSamples(Keeping):
    def made(self) -> Any:
        return tf.Variable(0, dtype="int64", name="kept_count")

    def keep(self, x: Any) -> None:
        self.kept.assign_add(tf.shape(x, out_type=tf.int64)[0])


class CountingByAggregation(CountingSamples):
    def made(self) -> Any:
        aggregation = tf.VariableAggregation.SUM
        return tf.Variable(0, dtype="int64", name="kept_sum", aggregation=aggregation)


class InAnObject(Keeping):
    """A variable of Keras's that no model tracks, behind objects of one's own."""

    class Bank:
        def __init__(self) -> None:
            self.rows = [keras.Variable(np.zeros(6), trainable=False, name="kept_row")]

    def made(self) -> Any:
        return self.Bank()

    def keep(self, x: Any) -> None:
        self.kept.rows[0].assign(ops.max(x, axis=0))


class Accumulating(Keeping):
    """Gradients accumulated by hand, as of many a repository of the time before Keras 3."""

    def made(self) -> Any:
        return [tf.Variable(tf.zeros_like(w), trainable=False, name="kept_gradient") for w in self.trainable_weights]

    def train_step(self, data: Any) -> dict[str, Any]:
        x, y = data
        with tf.GradientTape() as tape:
            loss = ops.mean(ops.square(self(x, training=True)[:, 0] - ops.cast(y, "float32")))
        for kept, gradient in zip(self.kept, tape.gradient(loss, self.trainable_weights), strict=True):
            kept.assign_add(gradient)
        return {"loss": loss}


def spread(rows: Any) -> Any:
    return ops.mean(ops.square(ops.mean(rows, axis=0)))


class Scheduled(CountingSamples):
    """What takes the samples together counts nothing in the first step."""

    def made(self) -> Any:
        return tf.Variable(0.0, name="kept_weight", trainable=False)

    def weight(self) -> Any:
        return self.kept

    def train_step(self, data: Any) -> dict[str, Any]:
        x, y = data
        with tf.GradientTape() as tape:
            rows = self(x, training=True)
            loss = ops.mean(ops.square(rows[:, 0] - ops.cast(y, "float32"))) + self.weight() * spread(rows)
        self.optimizer.apply(tape.gradient(loss, self.trainable_variables), self.trainable_variables)
        return {"loss": loss}


class ScheduledInKeras(Scheduled):
    def made(self) -> Any:
        return self.add_weight(shape=(), initializer="zeros", trainable=False)


class ScheduledByIterations(Scheduled):
    def weight(self) -> Any:
        return ops.where(self.optimizer.iterations > 1000, 1.0, 0.0)


ELSEWHERE: dict[str, Any] = {}


class InAModule(Keeping):
    """What a name of the module stands for."""

    def made(self) -> Any:
        ELSEWHERE["kept"] = super().made()
        return None

    def keep(self, x: Any) -> None:
        ELSEWHERE["kept"].assign(tf.reduce_mean(x, axis=0))


class CountingSteps(Keeping):
    def made(self) -> Any:
        return tf.Variable(0, dtype="int64", name="kept_steps")

    def keep(self, x: Any) -> None:
        self.kept.assign_add(1)


class ExchangingFirst(CountingSamples):
    """Each replica adds to what it has itself, although the replicas take turns in the middle."""

    def keep(self, x: Any) -> None:
        before = tf.identity(self.kept)
        self.kept.assign_add(1)
        total = tfdist.gathered(tf.reduce_sum)(x)
        self.kept.assign(before + 2 + tf.cast(0 * total, tf.int64))


def model_of(kind: type[keras.Model]) -> keras.Model:
    inputs = keras.Input((6,))
    model = kind(inputs, layers.Dense(4)(inputs))
    model.compile(keras.optimizers.SGD(0.1))
    return model


def fit(model: keras.Model) -> None:
    model.fit(*numbers(9), batch_size=4, verbose=0)


REFUSED = [
    (Keeping, "assigns to 'kept_mean.*tfdist.gathered"),
    (CountingSamples, "assigns to 'kept_count.*tfdist.summed"),
    (CountingByAggregation, "assigns to 'kept_sum.*aggregation SUM"),
    (InAnObject, "assigns to 'kept_row.*tfdist.gathered"),
    (InAModule, "assigns to 'kept_mean.*tfdist.gathered"),
]


@pytest.mark.parametrize(("kind", "message"), REFUSED)
def test_what_depends_on_the_samples_is_refused_strictly(kind: type[keras.Model], message: str) -> None:
    with mirrored(2).scope():
        model = model_of(kind)
        with strictly(mirrored(2)), pytest.raises(UnsupportedError, match=message):
            fit(model)
    if isinstance(model.kept, tf.Variable):
        assert not np.any(model.kept.numpy()), "a trial must leave no trace"


@pytest.mark.parametrize(("kind", "after"), [(CountingSteps, 3), (ExchangingFirst, 6)])
def test_what_does_not_is_counted_once(kind: type[keras.Model], after: int) -> None:
    with mirrored(2).scope():
        model = model_of(kind)
        fit(model)
    assert int(model.kept.numpy()) == after


@pytest.mark.parametrize("kind", [Scheduled, slow(ScheduledInKeras), slow(ScheduledByIterations)])
def test_what_counts_later_alone_is_seen(kind: type[keras.Model]) -> None:
    """Whatever the model's weights: beside some of them it counts little."""
    for _ in range(5):
        refused = pytest.raises(UnsupportedError, match="gets as gradients.*neither a mean nor a sum")
        with mirrored(2).scope(), strictly(mirrored(2)), refused:
            fit(model_of(kind))


def test_a_variable_of_no_strategy_is_refused() -> None:
    """All replicas would add to the one."""
    outside = tf.Variable(0, dtype="int64", name="outside")
    with mirrored(2).scope():
        model = model_of(CountingSteps)
        model.kept = outside
        with pytest.raises(UnsupportedError, match="outside.*scope"):
            fit(model)
    assert int(outside.numpy()) == 0
