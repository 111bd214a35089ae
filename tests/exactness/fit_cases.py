"""What `fit`, `evaluate` and `predict` are given, and the models that people build."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tests.exactness.table import case, classifier, fitted, numbers

layers = keras.layers


@case
def plain(samples: int) -> dict[str, Any]:
    return fitted(classifier(), *numbers(samples), {"metrics": ["accuracy"]})


@case
def validation_split(samples: int) -> dict[str, Any]:
    return fitted(classifier(), *numbers(samples), {"metrics": ["accuracy"]}, validation_split=0.3)


@case
def validation_data(samples: int) -> dict[str, Any]:
    return fitted(classifier(), *numbers(samples), validation_data=numbers(33, seed=6))


@case
def sample_weight(samples: int) -> dict[str, Any]:
    weight = np.random.default_rng(8).uniform(size=samples)
    weight[: samples // 3] = 0.0
    settings = {"metrics": ["accuracy"], "weighted_metrics": ["accuracy"]}
    return fitted(classifier(), *numbers(samples), settings, sample_weight=weight)


@case
def class_weight(samples: int) -> dict[str, Any]:
    return fitted(classifier(), *numbers(samples), class_weight={0: 1.0, 1: 5.0, 2: 0.2})


@case
def steps_per_epoch(samples: int) -> dict[str, Any]:
    x, y = numbers(samples)
    return fitted(classifier(), x, y, steps_per_epoch=2, validation_data=(x, y), validation_steps=1)


@case
def frozen_layer(samples: int) -> dict[str, Any]:
    model = classifier()
    model.layers[0].trainable = False
    return fitted(model, *numbers(samples))


@case
def subclassed_model_built_by_fit(samples: int) -> dict[str, Any]:
    class Net(keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.hidden = layers.Dense(8, activation="tanh")
            self.out = layers.Dense(3, activation="softmax")

        def call(self, inputs: tf.Tensor, training: bool = False) -> tf.Tensor:
            return self.out(self.hidden(inputs))

    return fitted(Net(), *numbers(samples), {"metrics": ["accuracy"]})


@case
def dict_inputs_and_outputs(samples: int) -> dict[str, Any]:
    x, y = numbers(samples)
    a, b = keras.Input((3,), name="a"), keras.Input((3,), name="b")
    joined = layers.Dense(5, activation="tanh")(layers.Concatenate()([a, b]))
    outputs = {"kind": layers.Dense(3, activation="softmax", name="kind")(joined), "size": layers.Dense(1)(joined)}
    model = keras.Model({"a": a, "b": b}, outputs)
    settings = {"loss": {"kind": "sparse_categorical_crossentropy", "size": "mse"}, "metrics": {"kind": ["accuracy"]}}
    return fitted(model, {"a": x[:, :3], "b": x[:, 3:]}, {"kind": y, "size": x[:, :1]}, settings)
