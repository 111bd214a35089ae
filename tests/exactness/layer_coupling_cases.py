"""Layers and models that take a sample by the others of its batch: gathered, as trials find out."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

import tfdist
from tests.exactness.coupling_cases import images
from tests.exactness.table import NOT_EVALUATED, ONLY_TRAINED, case, fitted, fitted_on, numbers

layers, ops = keras.layers, keras.ops


@keras.saving.register_keras_serializable("tfdist.tests")
class MovingMean(layers.Layer):
    """Keeps a moving mean of its own, as layers of people's own do, and subtracts it."""

    def build(self, shape: Any) -> None:
        self.mean = self.add_weight(shape=(shape[-1],), initializer="zeros", trainable=False, name="mean")

    def call(self, inputs: Any, training: bool = False) -> Any:
        if training:
            self.mean.assign(0.9 * self.mean + 0.1 * ops.mean(inputs, axis=0))
        return inputs - self.mean


@keras.saving.register_keras_serializable("tfdist.tests")
class Centered(layers.Layer):
    def call(self, inputs: Any) -> Any:
        return inputs - ops.mean(inputs, axis=0)


@keras.saving.register_keras_serializable("tfdist.tests")
class CovarianceLoss(layers.Layer):
    """Adds what VICReg adds: the variance of each feature, and the covariance of different ones."""

    def call(self, inputs: Any) -> Any:
        centered = inputs - ops.mean(inputs, axis=0)
        covariance = ops.matmul(ops.transpose(centered), centered) / ops.cast(ops.shape(inputs)[0], inputs.dtype)
        spread = ops.sqrt(ops.diagonal(covariance) + 1e-3)
        self.add_loss(0.1 * ops.sum(ops.relu(1.0 - spread)))
        self.add_loss(0.02 * (ops.sum(ops.square(covariance)) - ops.sum(ops.square(ops.diagonal(covariance)))))
        return inputs


@keras.saving.register_keras_serializable("tfdist.tests")
class PlainSum(layers.Layer):
    """Adds a sum, a mean and a value for each sample."""

    def call(self, inputs: Any) -> Any:
        self.add_loss(0.003 * ops.sum(ops.square(inputs)))
        self.add_loss(0.1 * ops.mean(ops.square(inputs)))
        self.add_loss(0.001 * ops.sum(ops.abs(inputs), axis=-1))
        return inputs


@keras.saving.register_keras_serializable("tfdist.tests")
class Reversed(layers.Layer):
    """Mixes each sample with another of the batch, and counts its calls."""

    def build(self, shape: Any) -> None:
        self.calls = self.add_weight(shape=(), initializer="zeros", trainable=False, name="calls")

    def call(self, inputs: Any, training: bool = False) -> Any:
        self.calls.assign_add(1.0)
        return 0.7 * inputs + 0.3 * ops.flip(inputs, axis=0) if training else inputs


def with_layers(samples: int, *between: layers.Layer, **settings: Any) -> dict[str, Any]:
    model = keras.Sequential(
        [
            keras.Input((6,)),
            layers.Dense(8, activation="tanh"),
            *between,
            layers.Dense(3, activation="softmax"),
        ]
    )
    return fitted(model, *numbers(samples), settings)


@case("a layer that assigns a moving mean of its own")
def own_moving_mean(samples: int) -> dict[str, Any]:
    return with_layers(samples, MovingMean())


@case("a layer that subtracts the mean of the batch")
def layer_that_subtracts_the_mean(samples: int) -> dict[str, Any]:
    return with_layers(samples, Centered(), metrics=["accuracy"])


@case("`add_loss` of a covariance over the batch, as VICReg adds")
def add_loss_of_a_covariance(samples: int) -> dict[str, Any]:
    return with_layers(samples, CovarianceLoss())


@case("`add_loss` of a sum, a mean and a vector that nobody has declared")
def add_loss_of_a_sum_that_is_tried_out(samples: int) -> dict[str, Any]:
    return with_layers(samples, PlainSum())


@case("a layer that mixes samples while it trains")
def layer_that_mixes_samples(samples: int) -> dict[str, Any]:
    return with_layers(samples, Reversed())


@case("such layers under `jit_compile=True`")
def coupling_layers_under_xla(samples: int) -> dict[str, Any]:
    return with_layers(samples, Centered(), PlainSum(), MovingMean(), jit_compile=True)


@case("such layers with `run_eagerly=True`")
def coupling_layers_run_eagerly(samples: int) -> dict[str, Any]:
    return with_layers(samples, Centered(), CovarianceLoss(), MovingMean(), run_eagerly=True)


@case("`keras.layers.MixUp` and `CutMix` in a model")
def mixup_and_cutmix(samples: int) -> dict[str, Any]:
    pixels, _ = images(samples)
    model = keras.Sequential(
        [
            keras.Input((4, 4, 1)),
            layers.MixUp(seed=3),
            layers.CutMix(seed=4),
            layers.Flatten(),
            layers.Dense(3, activation="softmax"),
        ]
    )
    return fitted(model, pixels, numbers(samples)[1])


@case("`tfdist.gathered(function)(tensors)` in a layer, `tfdist.gathered(layer)`, with `jit_compile=True`")
def gathered_function_in_a_layer(samples: int) -> dict[str, Any]:
    """In one that is compiled: XLA takes the layers around it."""
    ranks = tfdist.gathered(lambda x: ops.cast(ops.argsort(ops.argsort(x, axis=0), axis=0), x.dtype) * ops.mean(x))

    class Ranked(layers.Layer):
        def call(self, inputs: Any) -> Any:
            return inputs + 0.01 * ranks(inputs)

    return with_layers(samples, Ranked(), tfdist.gathered(Centered()), jit_compile=True) | NOT_EVALUATED


class CenteredModel(keras.Model):
    """Subtracts the mean of the batch between its layers, and adds a loss of the whole batch."""

    def __init__(self) -> None:
        super().__init__()
        self.hidden = layers.Dense(8, activation="tanh")
        self.normalized = layers.BatchNormalization()
        self.dropped = layers.Dropout(0.3, seed=3)
        self.classes = layers.Dense(3, activation="softmax")

    def call(self, inputs: Any, training: bool = False) -> Any:
        hidden = self.normalized(self.hidden(inputs), training=training)
        hidden = hidden - ops.mean(hidden, axis=0, keepdims=True)
        self.add_loss(0.1 * ops.square(ops.mean(hidden * inputs[:, :1])))
        return self.classes(self.dropped(hidden, training=training))


@case("a model whose `call` subtracts the mean of the batch between its layers")
def model_that_subtracts_the_mean(samples: int) -> dict[str, Any]:
    return fitted(CenteredModel(), *numbers(samples), {"metrics": ["accuracy"]}, validation_data=numbers(33, seed=6))


class AddingModel(keras.Model):
    """Adds losses in its call: a sum and a mean."""

    def __init__(self) -> None:
        super().__init__()
        self.classes = layers.Dense(3, activation="softmax")

    def call(self, inputs: Any) -> Any:
        outputs = self.classes(inputs)
        self.add_loss(0.002 * ops.sum(ops.square(outputs)))
        self.add_loss(0.1 * ops.mean(ops.square(outputs)))
        return outputs


@case("a model whose `call` adds a sum and a mean to the losses")
def model_that_adds_a_sum(samples: int) -> dict[str, Any]:
    return fitted(AddingModel(), *numbers(samples))


@case("`keras.ops` along the batch between the layers of a functional model")
def operations_along_the_batch(samples: int) -> dict[str, Any]:
    inputs = keras.Input((6,))
    hidden = layers.Dense(8, activation="tanh")(inputs)
    hidden = (hidden - ops.mean(hidden, axis=0, keepdims=True)) * 2.0
    hidden = layers.Dropout(0.3, seed=4)(hidden + ops.flip(hidden, axis=0))
    model = keras.Model(inputs, layers.Dense(3, activation="softmax")(hidden))
    return fitted(model, *numbers(samples), {"metrics": ["accuracy"]}, validation_data=numbers(33, seed=6))


@case("`keras.ops` that move the batch and put it back, between the layers of a functional model")
def operations_that_move_the_batch(samples: int) -> dict[str, Any]:
    inputs = keras.Input((6,))
    hidden = ops.transpose(layers.Dense(8, activation="tanh")(inputs)) * 2.0
    model = keras.Model(inputs, layers.Dense(3, activation="softmax")(ops.transpose(ops.tanh(hidden))))
    return fitted(model, *numbers(samples))


class Experts(layers.Layer):
    """One result for each expert and each row, as every mixture of experts has them: [experts, rows, units].

    Args:
        compares: Whether an expert divides by what it gives for all rows.
    """

    def __init__(self, compares: bool = False) -> None:
        super().__init__()
        self.compares = compares

    def build(self, shape: Any) -> None:
        self.kernels = self.add_weight(shape=(2, shape[-1], shape[-1]), name="kernels")

    def call(self, inputs: Any) -> Any:
        given = ops.einsum("rd,edu->eru", inputs, self.kernels)
        return ops.softmax(given, axis=1) if self.compares else given


class MixtureOfExperts(layers.Layer):
    """Folds time steps into the rows, and adds up what its experts give."""

    def __init__(self) -> None:
        super().__init__()
        self.experts = [Experts(), Experts(compares=True)]

    def build(self, shape: Any) -> None:
        for experts in self.experts:
            experts.build((None, shape[-1]))

    def call(self, inputs: Any) -> Any:
        rows = ops.reshape(inputs, (-1, inputs.shape[-1]))
        given = sum(ops.sum(experts(rows), axis=0) for experts in self.experts)
        return ops.reshape(given, (-1, *inputs.shape[1:]))


@case("layers inside of a layer that return rows in their second dimension, as experts do")
def experts_inside_of_a_layer(samples: int) -> dict[str, Any]:
    """One of them takes a row by the others."""
    x, y = numbers(samples)
    steps = layers.Dense(3, activation="softmax")
    model = keras.Sequential([keras.Input((2, 3)), MixtureOfExperts(), layers.Flatten(), steps])
    return fitted(model, x.reshape(-1, 2, 3), y)


class Turned(layers.Layer):
    """Lets rows and steps change places."""

    def call(self, inputs: Any) -> Any:
        return ops.transpose(inputs, (1, 0, 2))


class CenteredAlongRows(layers.Layer):
    """Subtracts the mean of all rows, which are in the second dimension."""

    def call(self, inputs: Any) -> Any:
        return inputs - ops.mean(inputs, axis=1, keepdims=True)


@case("layers of a functional model that pass on rows in the second dimension, and predictions with such rows")
def rows_in_the_second_dimension(samples: int) -> dict[str, Any]:
    inputs = keras.Input((2, 3))
    given = CenteredAlongRows()(Turned()(inputs))
    outputs = layers.Dense(3, activation="softmax")(layers.Flatten()(Turned()(given)))
    x, y = numbers(samples)
    x = x.reshape(-1, 2, 3)
    result = fitted(keras.Model(inputs, outputs), x, y)
    seen = keras.Model(inputs, given).predict(x, batch_size=samples, verbose=0).tolist()
    return result | {"seen": seen}


class TokensOfABatch(layers.Layer):
    """Makes so many tokens of its batch, which has one size alone: routes them to experts, as a switch transformer does
    (Fedus et al. 2021)."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number, self.route, self.expert = number, layers.Dense(2), layers.Dense(3)

    def build(self, shape: Any) -> None:
        self.route.build((None, shape[-1]))
        self.expert.build((None, shape[-1]))

    def call(self, inputs: Any) -> Any:
        tokens = ops.reshape(inputs, (self.number, inputs.shape[-1]))
        routes = ops.softmax(self.route(tokens))
        self.add_loss(ops.sum(ops.square(ops.mean(routes, axis=0))))
        return ops.reshape(self.expert(tokens) * routes[:, :1], (-1, *inputs.shape[1:]))


class DividingModel(keras.Model):
    def train_step(self, data: Any) -> dict[str, Any]:
        x, y = data
        with tf.GradientTape() as tape:
            predicted = self(x, training=True)
            each = keras.losses.sparse_categorical_crossentropy(y, predicted)
            loss = ops.sum(each) / x.shape[0] + sum(self.losses)
        self.optimizer.apply(tape.gradient(loss, self.trainable_variables), self.trainable_variables)
        return {"loss": loss}


def of_fixed_batches(
    samples: int, kind: type[keras.Model], *of: layers.Layer, size: int = 30, **compiled: Any
) -> dict[str, Any]:
    inputs = x = keras.Input((2, 3))
    for layer in (*of, layers.Flatten(), layers.Dense(3, activation="softmax")):
        x = layer(x)
    values, y = numbers(samples)
    data = tf.data.Dataset.from_tensor_slices((values.reshape(-1, 2, 3), y)).batch(size, drop_remainder=True)
    model = kind(inputs, x)
    result = fitted_on(model, data, compiled=compiled) | ONLY_TRAINED
    return result | {"seen": model.predict(data, verbose=0).tolist()}


@case("a layer that makes a fixed number of tokens of its batch")
def tokens_of_a_fixed_batch(samples: int) -> dict[str, Any]:
    return of_fixed_batches(samples, keras.Model, TokensOfABatch(2 * 30))


@case("a step of one's own that divides by `x.shape[0]`, of batches of a fixed size")
def own_step_that_divides_by_a_size(samples: int) -> dict[str, Any]:
    return of_fixed_batches(samples, DividingModel, metrics=None)


@case("the same of batches that replicas cannot divide")
def own_step_that_divides_by_an_odd_size(samples: int) -> dict[str, Any]:
    return of_fixed_batches(samples, DividingModel, size=31, metrics=None)


@case("the same that runs whole, as a layer takes no other number of samples")
def own_step_of_tokens_that_divides_by_a_size(samples: int) -> dict[str, Any]:
    return of_fixed_batches(samples, DividingModel, TokensOfABatch(2 * 30), metrics=None)
