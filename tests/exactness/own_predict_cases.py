"""Steps of `predict` of one's own, steps that are decorated with `tf.function`, and steps on ragged rows."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf
from keras import ops

import tfdist
from tests.exactness.own_step_cases import OwnStep, of
from tests.exactness.table import BATCH, case, fitted, fitted_on, numbers, tokens

layers = keras.layers


class Standing(keras.Model):
    """Predicts how each sample stands among those of its batch, and what is the same for any of them."""

    def predict_step(self, data: Any) -> Any:
        x, _, _ = keras.utils.unpack_x_y_sample_weight(data)
        rows = self(x, training=False)
        return {"share": ops.softmax(rows, axis=0), "rows": rows, "classes": ops.arange(3)}


@case("`predict_step` of one's own that takes a sample by the others of its batch")
def own_predict_step_over_the_batch(samples: int) -> dict[str, Any]:
    return fitted(of(Standing), *numbers(samples)) | {"evaluate": False}


class Anchors(layers.Layer):
    """Arrays of a fixed size, of which each batch has one, beside its rows."""

    def call(self, rows: Any) -> Any:
        return rows, ops.arange(4), ops.ones((16, 2))


@case("a model that predicts arrays of a fixed size beside its rows")
def predictions_of_a_fixed_size(samples: int) -> dict[str, Any]:
    """Of as many rows as a replica has, too."""
    trained = fitted(of(keras.Model), *numbers(samples))
    model = keras.Model(trained["model"].inputs, Anchors()(trained["model"].outputs[0]))
    model.compile(trained["model"].optimizer)
    return {**trained, "model": model, "evaluate": False}


class Sampling(keras.Model):
    """Predicts with random numbers, a moving mean of the batches so far, and a function that is gathered."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.seeds = keras.random.SeedGenerator(4)
        self.seen = tf.Variable(0.0, dtype="float64", trainable=False)

    @tf.function
    def predict_step(self, data: Any) -> Any:
        x, _, _ = keras.utils.unpack_x_y_sample_weight(data)
        rows = self(x + 0.1 * keras.random.normal(ops.shape(x), seed=self.seeds), training=False)
        self.seen.assign_add(tfdist.gathered(ops.sum)(rows))
        return tfdist.gathered(lambda rows: rows - ops.mean(rows, axis=0))(rows) + self.seen


@case("`predict_step` of one's own with random numbers and a `tf.Variable`, decorated with `tf.function`")
def own_predict_step_that_draws(samples: int) -> dict[str, Any]:
    return fitted(of(Sampling), *numbers(samples)) | {"evaluate": False}


class Decorated(OwnStep):
    """Steps and what they call are functions of TensorFlow, with conditions that AutoGraph converts."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.steps = tf.Variable(0, trainable=False, dtype="int64")

    @tf.function
    def train_step(self, data: Any) -> dict[str, Any]:
        x, y = data[:2]
        self.steps.assign_add(1)
        with tf.GradientTape() as tape:
            loss = self.loss_of(x, y)
        self.optimizer.apply(tape.gradient(loss, self.trainable_variables), self.trainable_variables)
        return self.measured(y, self(x, training=False), loss)

    @tf.function
    def loss_of(self, x: Any, y: Any) -> Any:
        y_pred = self(x, training=True)
        contrast = tfdist.gathered(self.contrast)(y_pred)
        weight = tf.constant(0.5, "float64")
        if self.steps % 2 == 0:
            weight = tf.constant(0.1, "float64")
        return self.compute_loss(x=x, y=y, y_pred=y_pred) + self.weighted(weight, contrast)

    @tf.function(jit_compile=True)
    def weighted(self, weight: Any, contrast: Any) -> Any:
        return weight * contrast

    def contrast(self, rows: Any) -> Any:
        products = ops.mean(ops.square(ops.matmul(rows, ops.transpose(rows))))
        if products > 0.1:
            products = products**2
        return products

    @tf.function
    def test_step(self, data: Any) -> dict[str, Any]:
        return super().test_step(data)


@case("steps of one's own that are decorated with `tf.function`, as is what they call")
def decorated_steps(samples: int) -> dict[str, Any]:
    inputs = keras.Input((6,))
    hidden = layers.BatchNormalization()(layers.Dense(8, activation="tanh")(inputs))
    model = Decorated(inputs, layers.Dense(3, activation="softmax")(hidden))
    made = fitted(model, *numbers(samples), validation_data=numbers(33, seed=6))
    return {**made, "seen": [int(model.steps.numpy())]}


class RaggedStep(keras.Model):
    """A step on rows of different lengths, whose own means it takes."""

    metrics = OwnStep.metrics
    train_step, test_step, measured = OwnStep.train_step, OwnStep.test_step, OwnStep.measured

    def __init__(self) -> None:
        super().__init__()
        self.loss_metric = keras.metrics.Mean(name="own_loss")
        self.error = keras.metrics.SparseCategoricalAccuracy(name="own_accuracy")
        self.table = self.add_weight(shape=(20, 4), initializer="glorot_uniform", name="table")
        self.last = layers.Dense(3, activation="softmax")
        self.last.build((None, 4))
        self.built = True

    def call(self, ids: Any, training: bool = False) -> Any:
        return self.last(tf.reduce_mean(ids.with_flat_values(tf.gather(self.table, ids.flat_values)), axis=1))

    def predict_step(self, data: Any) -> Any:
        ids = data[0] if isinstance(data, tuple) else data
        return ids.with_flat_values(tf.gather(self.table, ids.flat_values)).to_tensor(shape=(None, 7, 4))


@case("steps of one's own on ragged rows")
def own_steps_on_ragged_rows(samples: int) -> dict[str, Any]:
    rows = [row[row > 0].tolist() for row in tokens(samples)]
    data = tf.data.Dataset.from_tensor_slices((tf.ragged.constant(rows, dtype=tf.int64), numbers(samples)[1]))
    return fitted_on(RaggedStep(), data.batch(BATCH))
