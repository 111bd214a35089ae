"""What the first step builds: under which names, in which order, and not before plain Keras does."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from tests.exactness.table import EPOCHS, ONLY_TRAINED, case, classifier, fitted, numbers

layers = keras.layers


class States(keras.callbacks.Callback):
    """Notes, whenever it is called, which variables there are and what they hold."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[dict[str, Any]] = []
        for part in ("train", "epoch", "train_batch", "test", "test_batch"):
            for place in ("begin", "end"):
                setattr(self, f"on_{part}_{place}", self._noting(f"{part}_{place}"))

    def _noting(self, place: str) -> Any:
        return lambda *_, **__: self.seen.append({place: state_of(self.model)})


def state_of(model: keras.Model) -> dict[str, Any]:
    """Each variable of a model's parts by its place among them and its path, in order."""
    optimizer = getattr(model, "optimizer", None)
    parts = {
        "variables": model.variables,
        "trained": model.trainable_variables,
        "metrics": [variable for metric in model.metrics for variable in metric.variables],
        "optimizer": [] if optimizer is None else optimizer.variables,
    }
    return {
        part: {f"{place} {variable.path}": _numbers(variable) for place, variable in enumerate(variables)}
        for part, variables in parts.items()
    }


def _numbers(variable: keras.Variable) -> list[float]:
    return np.asarray(variable.numpy(), "float64").ravel()[:4].tolist()


def with_states(model: keras.Model, samples: int, compiled: dict[str, Any], **fit: Any) -> dict[str, Any]:
    """Two fits of a model, of which the second finds all built, with the states at all of their callbacks."""
    states, (x, y) = States(), numbers(samples)
    validation = (x[:9], y[:9])
    made = fitted(model, x, y, compiled, validation_data=validation, callbacks=[states], **fit)
    model.fit(x, y, batch_size=32, epochs=1, verbose=0, validation_data=validation, callbacks=[states])
    return made | {"seen": states.seen} | ONLY_TRAINED


class Subclassed(keras.Model):
    """A model that its first step builds, with layers inside of layers."""

    def __init__(self) -> None:
        super().__init__()
        self.hidden = keras.Sequential([layers.Dense(8, activation="tanh"), layers.BatchNormalization()])
        self.dropout, self.out = layers.Dropout(0.2), layers.Dense(3, activation="softmax")

    def call(self, inputs: Any, training: bool = False) -> Any:
        return self.out(self.dropout(self.hidden(inputs, training=training), training=training))


@case("states at all callbacks of a model that `fit` builds")
def states_of_a_subclassed_model(samples: int) -> dict[str, Any]:
    return with_states(Subclassed(), samples, {"optimizer": keras.optimizers.Adam(0.01), "metrics": ["accuracy"]})


@case("states at all callbacks of a model with an `Input`")
def states_of_a_built_model(samples: int) -> dict[str, Any]:
    optimizer = keras.optimizers.SGD(0.1, momentum=0.9, use_ema=True)
    return with_states(classifier(kernel_regularizer="l2"), samples, {"optimizer": optimizer, "metrics": ["accuracy"]})


@case("states at all callbacks, losses scaled")
def states_of_scaled_losses(samples: int) -> dict[str, Any]:
    optimizer = keras.optimizers.LossScaleOptimizer(keras.optimizers.Adam(0.01), initial_scale=4.0)
    return with_states(classifier(), samples, {"optimizer": optimizer})


class CallsItsParts(Subclassed):
    """A step that calls the layers of the model and treats weights by their paths."""

    def train_step(self, data: Any) -> dict[str, Any]:
        x, y = data
        with tf.GradientTape() as tape:
            y_pred = self.out(self.hidden(x, training=True))
            loss = ops.mean(keras.losses.sparse_categorical_crossentropy(y, y_pred))
        gradients = tape.gradient(loss, self.trainable_variables)
        rates = [0.1 if variable.path.startswith("sequential") else 1.0 for variable in self.trainable_variables]
        scaled = [rate * gradient for rate, gradient in zip(rates, gradients, strict=True)]
        self.optimizer.apply_gradients(zip(scaled, self.trainable_variables, strict=True))
        return {"loss": loss}


@case("states at all callbacks of a step that calls layers, rates by the paths of weights")
def states_of_a_step_that_calls_layers(samples: int) -> dict[str, Any]:
    return with_states(CallsItsParts(), samples, {"optimizer": keras.optimizers.Adam(0.01)})


class TakesADict(keras.Model):
    """A model that its first step builds: of a dict it is given a list."""

    def __init__(self) -> None:
        super().__init__()
        self.hidden, self.normalized, self.out = layers.Dense(8), layers.BatchNormalization(), layers.Dense(3)

    def call(self, inputs: Any, training: bool = False) -> Any:
        return self.out(self.normalized(self.hidden(inputs[0]) + inputs[1], training=training))

    def train_step(self, data: Any) -> dict[str, Any]:
        with tf.GradientTape() as tape:
            loss = self.compute_loss(y=data["y"], y_pred=self([data["x"], data["start"]], training=True))
        self.optimizer.apply(tape.gradient(loss, self.trainable_variables), self.trainable_variables)
        self._loss_tracker.update_state(loss, sample_weight=tf.shape(data["y"])[0])
        return {"loss": self._loss_tracker.result()}


@case("a model that a step of one's own builds, by calling it with other inputs than `fit` would")
def own_step_that_builds_the_model(samples: int) -> dict[str, Any]:
    x, y = numbers(samples)
    batches = tf.data.Dataset.from_tensor_slices({"x": x, "start": np.tile(x, 2)[:, :8], "y": y}).batch(32)
    model = TakesADict()
    model.compile(keras.optimizers.Adam(0.01), keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    history = model.fit(batches, epochs=EPOCHS, verbose=0)
    return {"model": model, "x": x, "history": history.history} | ONLY_TRAINED


class ProjectsLabels(keras.Model):
    """A layer that its loss alone calls."""

    def __init__(self) -> None:
        super().__init__()
        self.of_inputs, self.of_labels = layers.Dense(4), layers.Dense(4)

    def call(self, inputs: Any) -> Any:
        return self.of_inputs(inputs)

    def compute_loss(
        self, x: Any = None, y: Any = None, y_pred: Any = None, sample_weight: Any = None, training: bool = True
    ) -> Any:
        return ops.mean(ops.square(y_pred - self.of_labels(ops.one_hot(y, 3, dtype=y_pred.dtype)) - 1.0))


@case("a layer that `compute_loss` alone calls")
def layer_that_the_loss_builds(samples: int) -> dict[str, Any]:
    return fitted(ProjectsLabels(), *numbers(samples)) | ONLY_TRAINED


class StartsAtAValue(keras.Model):
    """Makes a variable of a value where it is built, as retrieval layers do."""

    def __init__(self) -> None:
        super().__init__()
        self.out = layers.Dense(3, activation="softmax")

    def build(self, shape: Any) -> None:
        self.out.build(shape)
        value = ops.convert_to_tensor(np.linspace(-1.0, 1.0, 18).reshape(6, 3))
        self.start = keras.Variable(initializer=value, trainable=False, name="start")
        super().build(shape)

    def call(self, inputs: Any) -> Any:
        return self.out(inputs) + ops.matmul(inputs, self.start)


@case("a variable that `build` makes of a value")
def variable_of_a_value(samples: int) -> dict[str, Any]:
    x, y = numbers(samples)
    return fitted(StartsAtAValue(), x, keras.utils.to_categorical(y, 3), {"loss": "mse"})
