"""Trials leave no trace in what the user's losses, layers and metrics hold beside variables of Keras."""

from __future__ import annotations

import collections
import queue
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers, ops
from keras.src.losses.losses import LossFunctionWrapper

from tests.helpers.mirrored import mirrored
from tfdist.keras_repairs.base.attached_value import AttachedValue
from tfdist.keras_repairs.base.loss_scope import Kind
from tfdist.keras_repairs.coupling.trials.call_trial import try_out_layer as try_layer
from tfdist.keras_repairs.coupling.trials.kept_state import KeptState
from tfdist.keras_repairs.coupling.trials.loss_trial import try_out as try_loss

pytestmark = pytest.mark.usefixtures("repaired")


class Bank:
    """An object of one's own that a layer holds."""

    def __init__(self) -> None:
        self.rows: list[Any] = [[1]]
        self.counts = {"a": 1}
        self.waiting: queue.Queue[int] = queue.Queue()

    def take(self) -> None:
        self.rows[0].append(2)
        self.rows.append(3)
        self.counts["b"] = self.counts.pop("a", 0) + 1
        self.waiting.put(4)


class Remembering(layers.Layer):
    """Leaves a trace in everything that it has."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.calls = 0
        self.seen: list[int] = []
        self.latest: collections.deque[int] = collections.deque([1, 2], maxlen=2)
        self.names = {"x"}
        self.table = np.zeros(3)
        self.bank = Bank()
        self.count = tf.Variable(0.0, trainable=False, aggregation=tf.VariableAggregation.MEAN)
        self.inner = layers.Dense(2)
        self.inner_memory = Inner()

    def call(self, inputs: Any) -> Any:
        self.calls += 1
        self.new = self.calls
        self.seen.append(self.calls)
        self.latest.append(self.calls)
        self.names.add("y")
        self.table[1] += 1
        self.bank.take()
        self.count.assign_add(1.0)
        return self.inner_memory(self.inner(inputs))

    def held(self) -> Any:
        bank = self.bank
        own = (self.calls, list(self.seen), list(self.latest), sorted(self.names), self.table.tolist())
        others = (bank.rows, bank.counts, bank.waiting.qsize(), float(self.count.numpy()), hasattr(self, "new"))
        return repr((own, others, self.inner_memory.calls))


class Inner(layers.Layer):
    calls = 0

    def call(self, inputs: Any) -> Any:
        self.calls += 1
        return inputs


@pytest.mark.parametrize("replicas", [1, 2])
def test_a_layer_holds_what_it_held(replicas: int) -> None:
    with mirrored(replicas).scope() if replicas > 1 else tf.init_scope():
        layer = Remembering()
        layer(keras.Input((6,)))
        layer.inner_memory.built = True
    before = layer.held()
    call = keras.layers.Layer.__call__
    verdict = try_layer(layer, lambda *args: call(layer, *args), (tf.ones([5, 6]),), {})
    assert not verdict.reason
    assert layer.held() == before
    layer(tf.ones([5, 6]))
    assert layer.held() != before


class Assigning(layers.Layer):
    """Assigns the mean of a batch to a variable of TensorFlow's that nobody reads."""

    def build(self, shape: Any) -> None:
        self.mean = tf.Variable(tf.zeros(shape[1:]), trainable=False, name="batch_mean")

    def call(self, inputs: Any) -> Any:
        self.mean.assign(tf.reduce_mean(inputs, axis=0))
        return inputs


def test_what_a_layer_assigns_to_a_variable_of_tensorflow_is_seen() -> None:
    layer = Assigning()
    layer.build((None, 6))
    layer.built = True
    verdict = try_layer(layer, layer, (tf.ones([5, 6]),), {})
    assert "batch_mean:0', a tf.Variable, what depends on the samples" in verdict.reason
    assert layer.mean.numpy().tolist() == [0.0] * 6


def test_a_loss_function_leaves_no_trace_in_what_it_closes_over() -> None:
    seen, calls = [], 0

    def error(y_true: Any, y_pred: Any) -> Any:
        nonlocal calls
        calls += 1
        seen.append(calls)
        return ops.mean(ops.square(y_true - y_pred), axis=-1)

    loss = LossFunctionWrapper(error)
    verdict = try_loss(loss, tf.ones([5, 3]), tf.ones([5, 3]))
    assert verdict.kind is Kind.ROWS
    assert (seen, calls) == ([], 0)


class Queue(keras.losses.Loss):
    """Keeps the mean prediction of the last batch, and compares with it."""

    def __init__(self, variable: Any) -> None:
        super().__init__()
        self.last = variable

    def call(self, y_true: Any, y_pred: Any) -> Any:
        values = ops.sum(ops.abs(y_pred - ops.convert_to_tensor(self.last)), axis=-1)
        self.last.assign(ops.mean(y_pred, axis=0))
        return values


@pytest.mark.parametrize("make", [tf.Variable, keras.Variable])
def test_a_loss_that_keeps_what_depends_on_the_batch_is_gathered(make: Any) -> None:
    loss = Queue(make(np.zeros(3, "float32")))
    assert try_loss(loss, tf.ones([5, 3]), tf.ones([5, 3])).kind is None
    assert np.asarray(loss.last).tolist() == [0.0, 0.0, 0.0]


def test_what_is_no_value_of_the_users_is_left_alone() -> None:
    class Owner(layers.Layer):
        def __init__(self) -> None:
            super().__init__()
            self.numbers = np.zeros(3)
            self.numbers.flags.writeable = False
            self.model = keras.Sequential([keras.Input((2,)), layers.Dense(1)])

    layer = Owner()
    with KeptState(layer).restored():
        layer.model.layers[0].kernel.assign(np.ones((2, 1)))
    assert layer.model.layers[0].kernel.numpy().tolist() == [[1.0], [1.0]]


def test_what_is_attached_to_an_object_in_a_trial_stays() -> None:
    class Counted(keras.metrics.Mean):
        pass

    found: AttachedValue[dict[str, int]] = AttachedValue("found")
    metric = Counted()
    with KeptState(metric).restored():
        found.set(metric, {"a": 1})
    with KeptState(metric).restored():
        found.get_or_make(metric, dict)["a"] = 2
    assert found.get(metric) == {"a": 2}
