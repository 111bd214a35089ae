"""Models in which many classes stand side by side: what each computes has its name, and reaches no other's numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import keras
import tensorflow as tf

from tests.exactness.keras_classes.data import INTEGERS, SAMPLES_SHAPES, TARGETS, inputs, targets
from tests.exactness.keras_classes.rows import Row

layers = keras.layers


@dataclass(frozen=True)
class Fitting:
    """A compiled model and its data.

    Attributes:
        model: Its weights and its metrics have the key of their row in their names.
        x: Inputs by name.
        y: Targets by the output's name.
    """

    model: keras.Model
    x: dict[str, Any]
    y: dict[str, Any]


def of_rows(rows: Sequence[Row], samples: int) -> Fitting:
    """The model of rows of one section, compiled."""
    return {"layers": _of_layers, "losses": _of_losses, "metrics": _of_metrics, "optimizers": _of_optimizers}[
        rows[0].section
    ](rows, samples)


def _of_layers(rows: Sequence[Row], samples: int) -> Fitting:
    given = {kind: _input(kind) for kind in dict.fromkeys(row.on for row in rows)}
    outputs = {row.key: _around(row, given[row.on]) for row in rows}
    model = keras.Model(given, outputs)
    model.compile(keras.optimizers.SGD(0.01), dict.fromkeys(outputs, "mse"))
    y = targets("numbers", samples)[:, :1]
    return Fitting(model, {kind: inputs(kind, samples) for kind in given}, dict.fromkeys(outputs, y))


def _input(kind: str) -> Any:
    if kind == "strings":
        return keras.Input((1,), dtype="string", name=kind)
    if kind in INTEGERS:
        return keras.Input(INTEGERS[kind][0], dtype="int64", name=kind)
    return keras.Input(SAMPLES_SHAPES[kind], name=kind)


def _around(row: Row, x: Any) -> Any:
    """Trained before, if it has a gradient, and after."""
    is_trained = row.is_trained_before and row.on in SAMPLES_SHAPES
    if is_trained:
        x = layers.Dense(x.shape[-1], use_bias=False, name=f"{row.key}_before")(x)
    made = row.make()
    made.name = f"{row.key}_itself"
    x = row.call(made, x)
    x = layers.Flatten(name=f"{row.key}_flat")(keras.ops.cast(x, keras.backend.floatx()))
    return layers.Dense(1, use_bias=False, name=row.key)(x)


def _head(kind: str, name: str, x: Any) -> Any:
    activation, size, _ = TARGETS[kind]
    if activation == "sequence":
        x = layers.Reshape((5, 2))(layers.Dense(10, name=f"{name}_before")(x))
        return layers.Dense(size, name=name)(x)
    dtype = "float32" if "float32" in kind else None
    return layers.Dense(size, activation=activation, name=name, dtype=dtype)(x)


def _of_losses(rows: Sequence[Row], samples: int) -> Fitting:
    x = keras.Input((6,), name="vector")
    outputs = {row.key: _head(row.on, row.key, x) for row in rows}
    model = keras.Model({"vector": x}, outputs)
    model.compile(keras.optimizers.SGD(0.01), {row.key: row.make() for row in rows})
    return Fitting(model, {"vector": inputs("vector", samples)}, {row.key: targets(row.on, samples) for row in rows})


def _of_metrics(rows: Sequence[Row], samples: int) -> Fitting:
    x = keras.Input((6,), name="vector")
    kinds = list(dict.fromkeys(row.on for row in rows))
    outputs = {kind: _head(kind, kind, x) for kind in kinds}
    model = keras.Model({"vector": x}, outputs)
    metrics = {kind: [row.make() for row in rows if row.on == kind] for kind in kinds}
    losses = {kind: "sparse_categorical_crossentropy" if "classes" in kind else "mse" for kind in kinds}
    model.compile(keras.optimizers.SGD(0.1), losses, weighted_metrics=metrics)
    return Fitting(model, {"vector": inputs("vector", samples)}, {kind: targets(kind, samples) for kind in kinds})


class ManyOptimizers(keras.Model):
    """Each part is trained by an optimizer of its own."""

    def __init__(self, by_row: dict[str, Any]) -> None:
        super().__init__()
        self.by_row = by_row
        self.parts = {
            key: keras.Sequential([keras.Input((6,)), layers.Dense(4, "tanh", name=f"{key}_before"),
                                   layers.Dense(3, name=key)])
            for key in by_row
        }  # fmt: skip

    def call(self, x: Any) -> Any:
        return {key: part(x["vector"]) for key, part in self.parts.items()}

    def train_step(self, data: Any) -> dict[str, Any]:
        x, y = data
        with tf.GradientTape(persistent=True) as tape:
            losses = {
                key: keras.losses.MeanSquaredError()(y["target"], value)
                for key, value in self(x, training=True).items()
            }
        for key, loss in losses.items():
            variables = self.parts[key].trainable_variables
            self.by_row[key].apply(tape.gradient(loss, variables), variables)
        return {f"{key}_loss": loss for key, loss in losses.items()}


def _of_optimizers(rows: Sequence[Row], samples: int) -> Fitting:
    x, y = {"vector": inputs("vector", samples)}, {"target": inputs("vector", samples)[:, :3] ** 2}
    if len(rows) == 1:
        (row,) = rows
        given = keras.Input((6,), name="vector")
        hidden = layers.Dense(4, "tanh", name=f"{row.key}_before")(given)
        model = keras.Model({"vector": given}, {"target": layers.Dense(3, name=f"{row.key}_head")(hidden)})
        model.compile(row.make(), "mse")
        return Fitting(model, x, y)
    many = ManyOptimizers({row.key: row.make() for row in rows})
    many.compile()
    return Fitting(many, x, y)
