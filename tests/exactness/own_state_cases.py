"""Steps of one's own that keep something in variables: counts, moving means, queues, a second model."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import ops

import tfdist
from tests.exactness.own_step_cases import OwnStep, of
from tests.exactness.table import ONLY_TRAINED, case, fitted, numbers

layers = keras.layers


class Counting(OwnStep):
    """Counts steps and samples, and keeps moving means of the inputs, in variables of TensorFlow's and Keras's."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.counts = {"steps": tf.Variable(0, dtype="int64"), "samples": tf.Variable(0, dtype="int64")}
        self.mean = tf.Variable(tf.zeros(6, "float64"), trainable=False)
        self.kept = [keras.Variable(np.zeros(6), trainable=False, name="kept")]

    def train_step(self, data: Any) -> dict[str, Any]:
        x = data[0]
        self.counts["steps"].assign_add(1)
        self.counts["samples"].assign_add(tfdist.summed(tf.shape(x, out_type=tf.int64)[0]))
        self.mean.assign(0.9 * self.mean + 0.1 * tfdist.gathered(lambda x: tf.reduce_mean(x, axis=0))(x))
        self.kept[0].assign(tfdist.gathered(lambda x: ops.maximum(self.kept[0], ops.max(x, axis=0)))(x))
        return super().train_step((x - self.mean, *data[1:]))


@case("a step of one's own that counts, and keeps moving means, in variables")
def own_step_that_counts(samples: int) -> dict[str, Any]:
    model = of(Counting)
    made = fitted(model, *numbers(samples))
    kept = [*model.counts.values(), model.mean, model.kept[0]]
    return {**made, **ONLY_TRAINED, "seen": np.concatenate([np.ravel(value.numpy()) for value in kept]).tolist()}


class Remembering(OwnStep):
    """Keeps features for the rest of the step, past layers in which the replicas meet."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.kept = {}

    def call(self, x: Any, training: bool = False) -> Any:
        first, norm, last = self.layers[1:]
        self.features = first(x)
        self.kept["rows"] = (x, self.features)
        return last(norm(self.features, training=training))

    def compute_loss(self, x: Any = None, y: Any = None, y_pred: Any = None, **options: Any) -> Any:
        rows, features = self.kept["rows"]
        apart = ops.mean(ops.square(ops.sum(rows, axis=1) - ops.sum(self.features * features, axis=1)))
        return super().compute_loss(x=x, y=y, y_pred=y_pred) + 0.1 * apart


@case("features that a model keeps on itself for its step, past BatchNormalization")
def own_step_that_remembers(samples: int) -> dict[str, Any]:
    inputs = keras.Input((6,))
    features = layers.BatchNormalization()(layers.Dense(5, activation="tanh")(inputs))
    model = Remembering(inputs, layers.Dense(3, activation="softmax")(features))
    return fitted(model, *numbers(samples)) | ONLY_TRAINED


class SkipConnections(layers.Layer):
    """Collects what its parts give in lists and attributes of its own, past BatchNormalization, as libraries do."""

    def __init__(self) -> None:
        super().__init__()
        self.norms, self.first = [layers.BatchNormalization(), layers.BatchNormalization()], None

    def build(self, shape: Any) -> None:
        for norm in self.norms:
            norm.build(shape)

    def call(self, x: Any, training: bool = False) -> Any:
        self.skipped, self.place = [], 0
        self.by_name = {}
        for norm in self.norms:
            y = norm(x, training=training)
            if self.first is None:
                self.first = 0.3 * y
            self.skipped.append(x)
            self.by_name.setdefault("first", x)
            x = y + 2.0 * self.skipped[self.place] + self.by_name["first"] + self.first
            self.place += 1
        self.first = None
        return x


@case("lists, dicts and numbers that a layer keeps in its `call`, around BatchNormalization")
def layer_that_collects_what_it_skips(samples: int) -> dict[str, Any]:
    inputs = keras.Input((6,))
    hidden = layers.Dense(5, activation="tanh")(inputs)
    outputs = layers.Dense(3, activation="softmax")(SkipConnections()(hidden))
    return fitted(keras.Model(inputs, outputs), *numbers(samples)) | ONLY_TRAINED


class MeanTeacher(OwnStep):
    """Learns from a teacher whose weights are the moving average of its own (Tarvainen and Valpola 2017)."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.teacher = keras.models.clone_model(keras.Model(self.inputs, self.outputs))
        self.teacher.trainable = False
        self.weight = tf.Variable(0.0, dtype="float64", trainable=False)

    def train_step(self, data: Any) -> dict[str, Any]:
        x, y = data[:2]
        noise = keras.random.normal(ops.shape(x), stddev=0.1, seed=3)
        with tf.GradientTape() as tape:
            y_pred = self(x, training=True)
            apart = ops.mean(ops.square(y_pred - self.teacher(x + noise, training=False)))
            loss = self.compute_loss(x=x, y=y, y_pred=y_pred) + self.weight * apart
        self.optimizer.apply(tape.gradient(loss, self.trainable_variables), self.trainable_variables)
        self.weight.assign(tf.minimum(self.weight + 0.1, 1.0))
        for own, mine in zip(self.teacher.weights, self.trainable_weights, strict=True):
            own.assign(0.9 * own + 0.1 * mine)
        return self.measured(y, y_pred, loss)


@case("a step of one's own with a mean teacher, and a weight that a variable schedules")
def own_step_with_a_mean_teacher(samples: int) -> dict[str, Any]:
    return fitted(of(MeanTeacher), *numbers(samples)) | ONLY_TRAINED


class Scattering(OwnStep):
    """Keeps sums and limits of the inputs of each class, at places in variables of TensorFlow's."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.sums, self.most, self.least = (tf.Variable(tf.zeros([3, 6], "float64"), trainable=False) for _ in range(3))
        self.last = tf.Variable(tf.zeros([2, 6], "float64"), trainable=False)

    def train_step(self, data: Any) -> dict[str, Any]:
        x, y = data[:2]
        places = tf.cast(y, "int32")[:, tf.newaxis] % 3
        self.sums.scatter_nd_add(places, x)
        self.sums.scatter_nd_sub([[0]], [tf.reduce_mean(x, axis=0)])
        self.most.scatter_nd_max(places, x)
        self.least.scatter_nd_min(places, x)
        self.last.scatter_nd_update([[1]], x[-1:])
        kept = self.sums / 100 + self.most - self.least
        return super().train_step((x - self.last[1] + tf.gather_nd(kept, places), *data[1:]))


@case("a step of one's own that scatters the rows of its batch into variables of TensorFlow's")
def own_step_that_scatters(samples: int) -> dict[str, Any]:
    return fitted(of(Scattering), *numbers(samples)) | ONLY_TRAINED
