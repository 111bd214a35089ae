"""Losses, and what they are divided by."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import tensorflow as tf

import tfdist
from tests.exactness.table import case, classifier, fitted, numbers, token_classifier, tokens

layers, ops = keras.layers, keras.ops


@case("kernel, bias and activity regularizers")
def regularizers(samples: int) -> dict[str, Any]:
    # The class L1 raises on float64 before Keras 3.14.
    absolute = keras.regularizers.L1L2(l1=0.01)
    model = classifier(kernel_regularizer="l2", bias_regularizer=absolute, activity_regularizer="l2")
    return fitted(model, *numbers(samples))


class FromOnes(keras.regularizers.Regularizer):
    """A loss of Keras's of weights that were to be ones."""

    def __init__(self, reduction: str) -> None:
        self.loss = keras.losses.MeanSquaredError(reduction=reduction)

    def __call__(self, weights: Any) -> Any:
        return self.loss(ops.ones_like(weights), weights)


@case("regularizers of weights that call a loss of Keras's")
def regularizers_that_call_losses(samples: int) -> dict[str, Any]:
    model = classifier(kernel_regularizer=FromOnes("sum_over_batch_size"), bias_regularizer=FromOnes("sum"))
    return fitted(model, *numbers(samples))


@case("masks: `mask_zero` through an LSTM")
def mask_of_an_embedding(samples: int) -> dict[str, Any]:
    ids = tokens(samples)
    model = token_classifier(layers.LSTM(5, return_sequences=True))
    return fitted(model, ids, ids % 3, {"metrics": ["accuracy"]})


@case("two outputs with masks of their own and loss weights")
def two_outputs_with_different_masks(samples: int) -> dict[str, Any]:
    first, second = tokens(samples), tokens(samples, seed=9)
    inputs = [keras.Input((7,), name="a"), keras.Input((7,), name="b")]
    outputs = [
        layers.Dense(3, activation="softmax", name=name)(layers.Embedding(20, 4, mask_zero=True)(tensor))
        for name, tensor in zip(("left", "right"), inputs, strict=True)
    ]
    settings = {
        "loss": ["sparse_categorical_crossentropy", "sparse_categorical_crossentropy"],
        "loss_weights": [1.0, 0.3],
        "metrics": [["accuracy"], ["accuracy"]],
    }
    return fitted(keras.Model(inputs, outputs), [first, second], [first % 3, second % 3], settings)


@case("a mask and a weight for each token")
def mask_and_sample_weight(samples: int) -> dict[str, Any]:
    ids = tokens(samples)
    model = token_classifier()
    weight = np.random.default_rng(8).uniform(size=(samples, 7))
    return fitted(model, ids, ids % 3, sample_weight=weight)


@case("a loss that divides by the sum of the weights")
def mean_with_sample_weight(samples: int) -> dict[str, Any]:
    loss = keras.losses.SparseCategoricalCrossentropy(reduction="mean_with_sample_weight")
    weight = np.random.default_rng(8).exponential(size=samples)
    return fitted(classifier(), *numbers(samples), {"loss": loss}, sample_weight=weight)


@case("the same loss without weights")
def mean_with_sample_weight_and_no_weight(samples: int) -> dict[str, Any]:
    loss = keras.losses.SparseCategoricalCrossentropy(reduction="mean_with_sample_weight")
    return fitted(classifier(), *numbers(samples), {"loss": loss})


@case('`reduction="sum"`')
def reduction_sum(samples: int) -> dict[str, Any]:
    loss = keras.losses.SparseCategoricalCrossentropy(reduction="sum")
    return fitted(classifier(), *numbers(samples), {"loss": loss, "optimizer": keras.optimizers.SGD(0.003)})


@case("a loss function of one's own, one value a sample")
def loss_function_of_ones_own(samples: int) -> dict[str, Any]:
    def squared(y_true: tf.Tensor, y_pred: tf.Tensor) -> tf.Tensor:
        return tf.reduce_sum(tf.square(y_true - y_pred), axis=-1)

    x, y = numbers(samples)
    return fitted(classifier(), x, keras.utils.to_categorical(y, 3), {"loss": squared, "metrics": [squared]})


@case('losses with `reduction="sum"` inside of loss functions and metric functions')
def losses_that_are_sums_inside_of_others(samples: int) -> dict[str, Any]:
    entropy = keras.losses.SparseCategoricalCrossentropy(reduction="sum")

    def divided(y_true: tf.Tensor, y_pred: tf.Tensor) -> tf.Tensor:
        return entropy(y_true, y_pred) / 64.0

    def averaged(y_true: tf.Tensor, y_pred: tf.Tensor) -> tf.Tensor:
        return entropy(y_true, y_pred) / ops.cast(ops.shape(y_true)[0], y_pred.dtype)

    return fitted(classifier(), *numbers(samples), {"loss": divided, "metrics": [averaged]})


@keras.saving.register_keras_serializable("tfdist.tests")
class Shrunk(layers.Layer):
    """Adds a sum of Keras's over its inputs, and keeps the mean of it."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.squares = keras.losses.MeanSquaredError(reduction="sum")
        self.tracker = keras.metrics.Mean(name="squares")

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        squares = self.squares(ops.zeros_like(inputs), inputs)
        self.add_loss(0.01 * squares)
        self.tracker.update_state(squares)
        return inputs


@case('losses with `reduction="sum"` that layers add and keep, and that regularize activities')
def losses_that_are_sums_inside_of_layers(samples: int) -> dict[str, Any]:
    regularized = layers.Dense(8, activation="tanh", activity_regularizer=FromOnes("sum"))
    model = keras.Sequential([keras.Input((6,)), regularized, Shrunk(), layers.Dense(3, activation="softmax")])
    return fitted(model, *numbers(samples))


@case("a loss function that returns a scalar")
def scalar_loss_function(samples: int) -> dict[str, Any]:
    def mean_squared(y_true: tf.Tensor, y_pred: tf.Tensor) -> tf.Tensor:
        return tf.reduce_mean(tf.square(y_true - y_pred))

    x, y = numbers(samples)
    return fitted(classifier(), x, keras.utils.to_categorical(y, 3), {"loss": mean_squared})


@keras.saving.register_keras_serializable("tfdist.tests")
class AddsLoss(layers.Layer):
    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        self.add_loss(0.1 * tf.reduce_mean(tf.square(inputs)))
        self.add_loss(0.001 * tf.reduce_sum(tf.abs(inputs), axis=-1))
        return inputs


@case("`add_loss` of a mean and of a vector")
def add_loss_of_a_mean_and_of_a_vector(samples: int) -> dict[str, Any]:
    model = keras.Sequential(
        [keras.Input((6,)), layers.Dense(8, activation="tanh"), AddsLoss(), layers.Dense(3, activation="softmax")]
    )
    return fitted(model, *numbers(samples))


@case("`add_loss` around synchronised statistics")
def added_losses_around_synchronized_statistics(samples: int) -> dict[str, Any]:
    model = keras.Sequential(
        [
            keras.Input((6,)),
            layers.Dense(8, activity_regularizer="l2"),
            layers.BatchNormalization(synchronized=True),
            AddsLoss(),
            layers.Dense(3, activation="softmax", activity_regularizer="l1"),
        ]
    )
    return fitted(model, *numbers(samples))


@keras.saving.register_keras_serializable("tfdist.tests")
class AddsSum(layers.Layer):
    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        self.add_loss(0.3 * tfdist.summed(0.01 * tf.reduce_sum(tf.square(inputs))))
        return inputs


@case("`add_loss(tfdist.summed(...))`")
def add_loss_of_a_declared_sum(samples: int) -> dict[str, Any]:
    model = keras.Sequential(
        [keras.Input((6,)), layers.Dense(8, activation="tanh"), AddsSum(), layers.Dense(3, activation="softmax")]
    )
    return fitted(model, *numbers(samples))


@case("`ignore_class`, Huber, two outputs")
def several_outputs_and_masks_of_losses(samples: int) -> dict[str, Any]:
    """A loss of Keras's that makes a mask of its own: targets of -1 are left out."""
    x, y = numbers(samples)
    inputs = keras.Input((6,))
    outputs = [layers.Dense(3, name="a")(inputs), layers.Dense(3, name="b")(inputs)]
    losses = [
        keras.losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=0),
        keras.losses.Huber(reduction="mean"),
    ]
    targets = [y, keras.utils.to_categorical(y, 3)]
    return fitted(keras.Model(inputs, outputs), x, targets, {"loss": losses, "loss_weights": [0.5, 2.0]})


def covariance(x: Any) -> Any:
    """Neither a mean nor a sum over the samples."""
    return 0.0005 * ops.sum(ops.square(ops.matmul(ops.transpose(x), x)))


def spread(x: Any) -> Any:
    return 0.1 * ops.mean(ops.square(x))


def far_from_zero(x: Any) -> Any:
    return 0.1 * ops.sum(ops.square(ops.mean(x, axis=0)))


def _regularized(samples: int, **compiled: Any) -> dict[str, Any]:
    hidden = [layers.Dense(4, "tanh", activity_regularizer=each) for each in (covariance, spread, far_from_zero)]
    model = keras.Sequential([keras.Input((6,)), *hidden, layers.Dense(3, activation="softmax")])
    return fitted(model, *numbers(samples), compiled)


@case("activity regularizers that are no sums: a mean, of a covariance, of the mean of the batch")
def activity_regularizers_that_are_no_sums(samples: int) -> dict[str, Any]:
    return _regularized(samples)


@case("such activity regularizers under `jit_compile=True`")
def activity_regularizers_under_xla(samples: int) -> dict[str, Any]:
    return _regularized(samples, jit_compile=True)
