"""Steps and optimizers of one's own of which no replica's part is exact: sums first, or the whole step on each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf
from keras import ops

from tests.exactness.own_step_cases import OwnStep, of
from tests.exactness.table import case, fitted, numbers


class Normalizing(keras.optimizers.SGD):
    """Divides each gradient by its norm before Keras gets it."""

    def apply(self, grads: Sequence[Any], trainable_variables: Any = None) -> None:
        super().apply([gradient / (ops.norm(gradient) + 1e-8) for gradient in grads], trainable_variables)


@case("an optimizer with an `apply` of its own, which normalizes gradients")
def optimizer_that_normalizes(samples: int) -> dict[str, Any]:
    return fitted(of(OwnStep), *numbers(samples), {"optimizer": Normalizing(0.1, momentum=0.9)})


class Assigning(keras.optimizers.Optimizer):
    """Assigns the variables itself, and keeps a moving norm of all gradients."""

    def build(self, variables: Any) -> None:
        super().build(variables)
        self.norm = self.add_variable(shape=(), name="norm")

    def apply(self, grads: Sequence[Any], trainable_variables: Any = None) -> None:
        if not self.built:
            self.build(trainable_variables)
        self.norm.assign(0.5 * self.norm + 0.5 * ops.sqrt(sum(ops.sum(ops.square(gradient)) for gradient in grads)))
        for gradient, variable in zip(grads, trainable_variables, strict=True):
            variable.assign(variable - self.learning_rate * gradient / (self.norm + 1e-8))
        self.iterations.assign_add(1)


@case("an optimizer that assigns the variables itself")
def optimizer_that_assigns(samples: int) -> dict[str, Any]:
    return fitted(keras.Sequential(of(OwnStep).layers), *numbers(samples), {"optimizer": Assigning(0.1)})


class CentralizingPairs(keras.optimizers.Adam):
    """Takes the mean off each gradient, in `apply_gradients`."""

    def apply_gradients(self, grads_and_vars: Any) -> Any:
        return super().apply_gradients([(g - ops.mean(g), v) for g, v in grads_and_vars])


@case("an optimizer with an `apply_gradients` of its own, and accumulation")
def optimizer_that_centralizes(samples: int) -> dict[str, Any]:
    return fitted(of(OwnStep), *numbers(samples), {"optimizer": CentralizingPairs(0.01, gradient_accumulation_steps=2)})


class SharpnessAware(OwnStep):
    """A second pass at weights that were moved along the gradient, by its norm (Foret et al. 2020)."""

    def train_step(self, data: Any) -> dict[str, Any]:
        x, y = data[:2]
        first, _, _ = self.gradients_of(x, y)
        norm = tf.linalg.global_norm(first)
        moves = [0.05 * gradient / (norm + 1e-12) for gradient in first]
        for variable, move in zip(self.trainable_variables, moves, strict=True):
            variable.assign_add(move)
        second, y_pred, loss = self.gradients_of(x, y)
        for variable, move in zip(self.trainable_variables, moves, strict=True):
            variable.assign_sub(move)
        self.optimizer.apply(second, self.trainable_variables)
        return {**self.measured(y, y_pred, loss), "norm": norm}

    def gradients_of(self, x: Any, y: Any) -> tuple[list[Any], Any, Any]:
        with tf.GradientTape() as tape:
            y_pred = self(x, training=True)
            loss = self.compute_loss(x=x, y=y, y_pred=y_pred)
        return tape.gradient(loss, self.trainable_variables), y_pred, loss


@case("a step that moves weights along the gradient, and takes another there (SAM)")
def sharpness_aware_step(samples: int) -> dict[str, Any]:
    return fitted(of(SharpnessAware), *numbers(samples), {"optimizer": keras.optimizers.SGD(0.1, momentum=0.9)})


class Accumulating(OwnStep):
    """Adds gradients up in variables of its own, and applies their mean every second step."""

    def build(self, input_shape: Any) -> None:
        super().build(input_shape)
        self.sums = [tf.Variable(tf.zeros_like(variable), trainable=False) for variable in self.trainable_variables]
        self.steps = tf.Variable(0, trainable=False)

    def train_step(self, data: Any) -> dict[str, Any]:
        x, y = data[:2]
        with tf.GradientTape() as tape:
            y_pred = self(x, training=True)
            loss = self.compute_loss(x=x, y=y, y_pred=y_pred)
        self.steps.assign_add(1)
        due = tf.cast(self.steps % 2 == 0, loss.dtype)
        for total, gradient in zip(self.sums, tape.gradient(loss, self.trainable_variables), strict=True):
            total.assign_add(gradient / 2)
        self.optimizer.apply([total * due for total in self.sums], self.trainable_variables)
        for total in self.sums:
            total.assign(total * (1 - due))
        return self.measured(y, y_pred, loss)


@case("gradients accumulated by hand, in variables of TensorFlow")
def accumulation_by_hand(samples: int) -> dict[str, Any]:
    return fitted(of(Accumulating), *numbers(samples), {"optimizer": keras.optimizers.SGD(0.2)})


class Negatives(OwnStep):
    """A sum over the batch, of each sample against all others, in `compute_loss`."""

    def compute_loss(self, x: Any = None, y: Any = None, y_pred: Any = None, *_: Any, **__: Any) -> Any:
        scores = ops.matmul(y_pred, ops.transpose(y_pred))
        same = ops.cast(ops.equal(y[:, None], y[None, :]), scores.dtype)
        return 0.01 * ops.sum(ops.square(scores - same)) + super().compute_loss(x, y, y_pred)


@case("a `compute_loss` that sums over pairs of the batch's samples")
def whole_step_of_pairs(samples: int) -> dict[str, Any]:
    return fitted(of(Negatives), *numbers(samples), {"optimizer": keras.optimizers.SGD(0.05)})


class Following(OwnStep):
    """A moving mean of its outputs, and a mean over the samples of one class, computed by hand."""

    def build(self, input_shape: Any) -> None:
        super().build(input_shape)
        self.center = self.add_weight(shape=(3,), initializer="zeros", trainable=False, name="center")

    def train_step(self, data: Any) -> dict[str, Any]:
        x, y = data[:2]
        with tf.GradientTape() as tape:
            y_pred = self(x, training=True)
            chosen = ops.cast(ops.equal(y, 1), y_pred.dtype)
            distance = ops.sum(ops.square(y_pred - self.center), axis=-1)
            loss = ops.sum(chosen * distance) / ops.maximum(ops.sum(chosen), 1)
        self.optimizer.apply(tape.gradient(loss, self.trainable_variables), self.trainable_variables)
        self.center.assign(0.9 * self.center + 0.1 * ops.mean(y_pred, axis=0))
        return {**self.measured(y, y_pred, loss), "largest": ops.max(y_pred)}


@case("a mean over the samples of a class, a moving mean and a maximum, by hand")
def whole_step_that_follows(samples: int) -> dict[str, Any]:
    return fitted(of(Following), *numbers(samples), {"optimizer": keras.optimizers.SGD(0.1)})


class Mixed(OwnStep):
    """Mixes each sample with another one, by their numbers in an order that is drawn (Zhang et al. 2017)."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.seeds = keras.random.SeedGenerator(13)

    def train_step(self, data: Any) -> dict[str, Any]:
        x, y = data[:2]
        order = keras.random.shuffle(ops.arange(ops.shape(x)[0]), seed=self.seeds)
        return super().train_step((0.7 * x + 0.3 * ops.take(x, order, axis=0), y))


@case("samples mixed in a step of one's own, by their shuffled numbers")
def mixed_by_shuffled_numbers(samples: int) -> dict[str, Any]:
    return fitted(of(Mixed), *numbers(samples), {"optimizer": keras.optimizers.SGD(0.1)})
