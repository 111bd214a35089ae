"""What trials of losses, layers and metrics have to find out, beside what couples the samples of every batch alike."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tests.exactness.table import ONLY_TRAINED, case, fitted, numbers

layers, ops = keras.layers, keras.ops


class MovingMeanOfTensorFlow(layers.Layer):
    """Keeps a moving mean in a variable of TensorFlow's, as layers of the time before Keras 3 do."""

    def build(self, shape: Any) -> None:
        self.mean = tf.Variable(
            tf.zeros(shape[1:], self.variable_dtype), trainable=False, aggregation=tf.VariableAggregation.MEAN
        )
        self.calls = tf.Variable(0.0, trainable=False, aggregation=tf.VariableAggregation.MEAN)

    def call(self, inputs: Any, training: bool = False) -> Any:
        outputs = inputs - tf.convert_to_tensor(self.mean) / tf.maximum(tf.cast(self.calls, inputs.dtype), 1.0)
        if training:
            self.calls.assign_add(1.0)
            self.mean.assign(0.9 * self.mean + 0.1 * tf.reduce_mean(inputs, axis=0))
        return outputs


@case("a layer with a moving mean and a count in variables of TensorFlow's")
def moving_mean_in_a_tf_variable(samples: int) -> dict[str, Any]:
    layer = MovingMeanOfTensorFlow()
    model = keras.Sequential([keras.Input((6,)), layer, layers.Dense(3, activation="softmax")])
    trained = fitted(model, *numbers(samples))
    return trained | {"seen": [layer.mean.numpy().tolist(), float(layer.calls.numpy())]}


class Centering(layers.Layer):
    """Subtracts a mean: of each sample, or of the batch, as it is told to where it is called."""

    def call(self, inputs: Any, of_batch: bool = False) -> Any:
        return inputs - ops.mean(inputs, axis=0 if of_batch else -1, keepdims=True)


@case("a metric function that takes the mean of the labels that are not -1")
def metric_of_valid_labels(samples: int) -> dict[str, Any]:
    def valid_error(y_true: Any, y_pred: Any) -> Any:
        valid = ops.cast(y_true != -1, y_pred.dtype)
        return ops.sum(ops.abs(y_true - y_pred) * valid) / ops.maximum(ops.sum(valid), 1)

    x, _ = numbers(samples)
    y = np.where(np.arange(samples)[:, None] % 5 < [2, 1, 4], -1.0, x[:, :3] ** 2)
    model = keras.Sequential([keras.Input((6,)), layers.Dense(3)])
    return fitted(model, x, y, {"loss": "mse", "metrics": [valid_error]}) | {"predict": False}


@case("a layer that an argument lets couple the batch, in the second of its calls")
def layer_called_in_two_ways(samples: int) -> dict[str, Any]:
    inputs, centering = keras.Input((6,)), Centering()
    hidden = layers.Dense(8, activation="tanh")(centering(inputs))
    outputs = layers.Dense(3, activation="softmax")(centering(hidden, of_batch=True))
    return fitted(keras.Model(inputs, outputs), *numbers(samples)) | ONLY_TRAINED


class WithoutAccidentalHits(layers.Layer):
    """Takes the scores of all samples with all candidates, [batch, batch], and the candidates, [batch]."""

    def call(self, scores: Any, items: Any) -> Any:
        hits = ops.cast(items[None, :] == items[:, None], scores.dtype)
        return scores - 9.0 * hits * (1 - ops.eye(ops.shape(scores)[0], dtype=scores.dtype))


class Retrieval(keras.Model):
    """Compares each sample with the candidates of all, which no single layer of it can be tried out with."""

    def __init__(self) -> None:
        super().__init__()
        self.queries, self.candidates = layers.Embedding(11, 4), layers.Embedding(9, 4)
        self.adds = Adding()
        self.hits = WithoutAccidentalHits()

    def call(self, inputs: Any) -> Any:
        return self.adds(self.queries(inputs["user"])), self.candidates(inputs["item"])

    def compute_loss(
        self, x: Any = None, y: Any = None, y_pred: Any = None, sample_weight: Any = None, training: bool = True
    ) -> Any:
        scores = self.hits(ops.matmul(y_pred[0], ops.transpose(y_pred[1])), x["item"])
        loss = keras.losses.CategoricalCrossentropy(from_logits=True)
        return loss(ops.eye(ops.shape(scores)[0]), scores) + ops.sum(self.losses)


class Adding(layers.Layer):
    """Adds a sum over the samples to the losses."""

    def call(self, inputs: Any) -> Any:
        self.add_loss(0.01 * ops.sum(ops.square(inputs)))
        return inputs


def _interactions(samples: int) -> dict[str, Any]:
    generator = np.random.default_rng(5)
    return {"user": generator.integers(0, 11, samples), "item": generator.integers(0, 9, samples)}


@case("a layer called in `compute_loss` with the scores of all samples with all, built by the first step")
def scores_of_all_samples_with_all(samples: int) -> dict[str, Any]:
    return fitted(Retrieval(), _interactions(samples), None, {"loss": None}) | ONLY_TRAINED


class AddingWhenBuilt(keras.Model):
    """Is built by its first step, and adds a sum to the losses."""

    def __init__(self) -> None:
        super().__init__()
        self.hidden, self.adds, self.classes = layers.Dense(4), Adding(), layers.Dense(3, activation="softmax")

    def call(self, inputs: Any) -> Any:
        return self.classes(self.adds(self.hidden(inputs)))


@case("a sum that a layer adds to the losses, which the first step builds")
def added_sum_of_a_layer_to_build(samples: int) -> dict[str, Any]:
    return fitted(AddingWhenBuilt(), *numbers(samples))
