"""What steps write besides what they return: once a step, of the global batch, and nothing made up.

Rows look at what Python functions of TensorFlow are called with, which lies in the process; `tests/devices/test_writes`
reads files.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from tests.exactness.table import ONLY_TRAINED, case, fitted, numbers

layers, ops = keras.layers, keras.ops

Emit = Callable[..., Any]


class Writing(keras.Model):
    """Writes in its step what it is told to."""

    def __init__(self, emit: Emit) -> None:
        super().__init__()
        self.dense = layers.Dense(3)
        self.emit = emit

    def build(self, shape: Any) -> None:
        self.dense.build(shape)

    def call(self, inputs: Any) -> Any:
        return self.dense(inputs)

    def train_step(self, data: Any) -> dict[str, Any]:
        x, y = data
        with tf.GradientTape() as tape:
            loss = self.compute_loss(x=x, y=y, y_pred=self(x, training=True))
        self.optimizer.apply(tape.gradient(loss, self.trainable_variables), self.trainable_variables)
        self.emit(x, loss, self.optimizer.iterations)
        return {"loss": loss}


def written_in_a_step(samples: int, emit_to: Callable[[list[Any]], Emit]) -> dict[str, Any]:
    seen: list[Any] = []
    model = Writing(emit_to(seen))
    model.build((None, 6))
    compiled = {"loss": keras.losses.SparseCategoricalCrossentropy(from_logits=True)}
    return fitted(model, *numbers(samples), compiled) | {"seen": seen} | ONLY_TRAINED


def noting(seen: list[Any]) -> Callable[..., None]:
    return lambda *values: seen.extend(value.numpy().tolist() for value in values)


@case("a `train_step` that gives its loss to a Python function")
def written_loss(samples: int) -> dict[str, Any]:
    return written_in_a_step(samples, lambda seen: lambda x, loss, step: tf.py_function(noting(seen), [loss, step], []))


@case("a `train_step` that gives its samples to a Python function")
def written_rows(samples: int) -> dict[str, Any]:
    return written_in_a_step(samples, lambda seen: lambda x, loss, step: tf.py_function(noting(seen), [x], []))


@case("a `train_step` that gives a maximum over its samples to a Python function")
def written_maximum(samples: int) -> dict[str, Any]:
    def emit_to(seen: list[Any]) -> Emit:
        return lambda x, loss, step: tf.py_function(noting(seen), [ops.max(x)], [])

    return written_in_a_step(samples, emit_to)


@case("a `train_step` that puts its loss into a queue")
def queued_loss(samples: int) -> dict[str, Any]:
    queue = tf.queue.FIFOQueue(100, "float64")
    made = written_in_a_step(samples, lambda seen: lambda x, loss, step: queue.enqueue(loss))
    return made | {"seen": [float(queue.dequeue()) for _ in range(int(queue.size()))]}


@case("a `train_step` that counts its samples in a table")
def counted_in_a_table(samples: int) -> dict[str, Any]:
    table = tf.lookup.experimental.MutableHashTable("int64", "float64", -1.0)

    def emit(x: Any, loss: Any, step: Any) -> None:
        table.insert(ops.cast(1e6 * x[:, 0], "int64"), x[:, 1])

    made = written_in_a_step(samples, lambda seen: emit)
    keys, values = table.export()
    return made | {"seen": sorted(zip(keys.numpy().tolist(), values.numpy().tolist(), strict=True))}


class WritingLayer(layers.Layer):
    """Writes a number that it takes of the batch."""

    def __init__(self, function: Callable[..., Any], seen: list[Any]) -> None:
        super().__init__()
        self.function, self.write = function, noting(seen)

    def call(self, inputs: Any, training: bool = False) -> Any:
        if training:
            tf.py_function(self.write, [self.function(inputs)], [])
        return inputs


def written_in_a_layer(samples: int, function: Callable[..., Any]) -> dict[str, Any]:
    seen: list[Any] = []
    model = keras.Sequential([keras.Input((6,)), WritingLayer(function, seen), layers.Dense(3, activation="softmax")])
    return fitted(model, *numbers(samples)) | {"seen": seen} | ONLY_TRAINED


@case("a layer that gives a mean to a Python function")
def written_mean_of_a_layer(samples: int) -> dict[str, Any]:
    return written_in_a_layer(samples, ops.mean)


@case("a layer that gives a maximum over its samples to a Python function")
def written_maximum_of_a_layer(samples: int) -> dict[str, Any]:
    return written_in_a_layer(samples, ops.max)


@case("a loss and a metric that give maxima over their samples to Python functions")
def written_maxima_of_a_loss_and_a_metric(samples: int) -> dict[str, Any]:
    seen: list[Any] = []

    def of(kind: Callable[..., Any]) -> Callable[..., Any]:
        def function(y_true: Any, y_pred: Any) -> Any:
            tf.py_function(noting(seen), [kind(y_true)], [])
            return ops.mean(ops.square(y_true - y_pred), axis=-1)

        return function

    x, _ = numbers(samples)
    model = keras.Sequential([keras.Input((6,)), layers.Dense(3)])
    made = fitted(model, x, x[:, :3], {"loss": of(ops.max), "metrics": [of(ops.min)]})
    return made | {"seen": sorted(seen)} | ONLY_TRAINED
