"""What `fit`, `evaluate` and `predict` are given, and the models that people build."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tests.exactness.table import BATCH, case, classifier, fitted, numbers

layers = keras.layers


@case("`fit`, `evaluate`, `predict` on arrays")
def plain(samples: int) -> dict[str, Any]:
    return fitted(classifier(), *numbers(samples), {"metrics": ["accuracy"]})


@case("`validation_split`")
def validation_split(samples: int) -> dict[str, Any]:
    return fitted(classifier(), *numbers(samples), {"metrics": ["accuracy"]}, validation_split=0.3)


@case("`validation_data`")
def validation_data(samples: int) -> dict[str, Any]:
    return fitted(classifier(), *numbers(samples), validation_data=numbers(33, seed=6))


@case("`sample_weight`, zero for whole replicas")
def sample_weight(samples: int) -> dict[str, Any]:
    weight = np.random.default_rng(8).uniform(size=samples)
    weight[: samples // 3] = 0.0
    settings = {"metrics": ["accuracy"], "weighted_metrics": ["accuracy"]}
    return fitted(classifier(), *numbers(samples), settings, sample_weight=weight)


@case("`class_weight`")
def class_weight(samples: int) -> dict[str, Any]:
    return fitted(classifier(), *numbers(samples), class_weight={0: 1.0, 1: 5.0, 2: 0.2})


@case("`steps_per_epoch`, `validation_steps`")
def steps_per_epoch(samples: int) -> dict[str, Any]:
    x, y = numbers(samples)
    return fitted(classifier(), x, y, steps_per_epoch=2, validation_data=(x, y), validation_steps=1)


@case("a frozen layer")
def frozen_layer(samples: int) -> dict[str, Any]:
    model = classifier()
    model.layers[0].trainable = False
    return fitted(model, *numbers(samples))


@case("a subclassed model that `fit` builds")
def subclassed_model_built_by_fit(samples: int) -> dict[str, Any]:
    class Net(keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.hidden = layers.Dense(8, activation="tanh")
            self.out = layers.Dense(3, activation="softmax")

        def call(self, inputs: tf.Tensor, training: bool = False) -> tf.Tensor:
            return self.out(self.hidden(inputs))

    return fitted(Net(), *numbers(samples), {"metrics": ["accuracy"]})


@case("dicts of inputs and outputs")
def dict_inputs_and_outputs(samples: int) -> dict[str, Any]:
    x, y = numbers(samples)
    a, b = keras.Input((3,), name="a"), keras.Input((3,), name="b")
    joined = layers.Dense(5, activation="tanh")(layers.Concatenate()([a, b]))
    outputs = {"kind": layers.Dense(3, activation="softmax", name="kind")(joined), "size": layers.Dense(1)(joined)}
    model = keras.Model({"a": a, "b": b}, outputs)
    settings = {"loss": {"kind": "sparse_categorical_crossentropy", "size": "mse"}, "metrics": {"kind": ["accuracy"]}}
    return fitted(model, {"a": x[:, :3], "b": x[:, 3:]}, {"kind": y, "size": x[:, :1]}, settings)


@case("several inputs in a list, a layer used twice, a model inside the model")
def shared_layers_and_nested_models(samples: int) -> dict[str, Any]:
    x, y = numbers(samples)
    part = keras.Sequential([keras.Input((3,)), layers.Dense(4, activation="tanh"), layers.Dense(2)], name="part")
    a, b = keras.Input((3,)), keras.Input((3,))
    shared = layers.Dense(3, activation="tanh", kernel_regularizer="l2")
    joined = layers.Concatenate()([part(a), part(b), shared(a), shared(b)])
    model = keras.Model([a, b], layers.Dense(3, activation="softmax")(joined))
    return fitted(model, [x[:, :3], x[:, 3:]], y, {"metrics": ["accuracy"]})


def silent_first_half(samples: int) -> np.ndarray:
    """Weights that sum to zero over the first replica's samples of every batch, be they two or three."""
    weight = np.random.default_rng(8).uniform(size=samples)
    weight[np.arange(samples) % BATCH < BATCH // 2] = 0.0
    return weight


@case("`sample_weight` that sums to zero on a replica in every batch")
def sample_weight_of_zero_on_a_replica(samples: int) -> dict[str, Any]:
    settings = {"metrics": ["accuracy"], "weighted_metrics": ["accuracy"]}
    weight = silent_first_half(samples)
    return fitted(classifier(), *numbers(samples), settings, sample_weight=weight, shuffle=False)


@case("the same, and a loss that divides by the sum of the weights")
def mean_with_sample_weight_of_zero_on_a_replica(samples: int) -> dict[str, Any]:
    loss = keras.losses.SparseCategoricalCrossentropy(reduction="mean_with_sample_weight")
    weight = silent_first_half(samples)
    return fitted(classifier(), *numbers(samples), {"loss": loss}, sample_weight=weight, shuffle=False)


@case("`keras.distribution.DataParallel` over all devices")
def data_parallel_of_keras(samples: int) -> dict[str, Any]:
    keras.distribution.set_distribution(keras.distribution.DataParallel())
    return fitted(classifier(), *numbers(samples), {"metrics": ["accuracy"]})
