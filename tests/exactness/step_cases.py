"""Steps: several in one execution, parts of epochs, and steps that XLA compiles."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tests.exactness.own_step_cases import OwnStep, of
from tests.exactness.table import (
    BATCH,
    ONLY_TRAINED,
    case,
    classifier,
    fitted,
    fitted_on,
    numbers,
    token_classifier,
    tokens,
)

layers = keras.layers


@case("`steps_per_execution`, a part left over")
def steps_per_execution(samples: int) -> dict[str, Any]:
    """Of 3 steps the last execution has one."""
    settings = {"steps_per_execution": 2, "metrics": ["accuracy"]}
    return fitted(classifier(), *numbers(samples), settings, validation_data=numbers(100, seed=6))


@case("`steps_per_execution` on data without end")
def steps_per_execution_of_a_dataset_that_repeats(samples: int) -> dict[str, Any]:
    data = tf.data.Dataset.from_tensor_slices(numbers(samples)).batch(BATCH)
    return fitted_on(classifier(), data.repeat(), data, {"steps_per_execution": 3}, steps_per_epoch=6)


@case("`steps_per_execution` on data of unknown size")
def steps_per_execution_of_unknown_size(samples: int) -> dict[str, Any]:
    data = tf.data.Dataset.from_tensor_slices(numbers(samples)).batch(BATCH).filter(lambda x, y: True)
    return fitted_on(classifier(), data, None, {"steps_per_execution": 2})


@case("`validation_freq`, `initial_epoch`")
def validation_frequency_and_initial_epoch(samples: int) -> dict[str, Any]:
    return fitted(classifier(), *numbers(samples), validation_data=numbers(33, seed=6), validation_freq=2,
                  initial_epoch=1)  # fmt: skip


@case("`run_eagerly`")
def run_eagerly(samples: int) -> dict[str, Any]:
    return fitted(classifier(), *numbers(samples), {"run_eagerly": True, "metrics": ["accuracy"]})


@case("two fits, compiled anew with a layer frozen between")
def two_fits_and_changed_layers(samples: int) -> dict[str, Any]:
    """Compiled again with another optimizer after a layer was frozen: nothing of the first fit is left behind."""
    model = classifier()
    x, y = numbers(samples)
    fitted(model, x, y)
    model.layers[0].trainable = False
    return fitted(model, x, np.flip(y), {"optimizer": keras.optimizers.Adam(0.01)})


@case("`jit_compile=True`")
def xla(samples: int) -> dict[str, Any]:
    model = classifier(kernel_regularizer="l2")
    optimizer = keras.optimizers.Adam(0.05, global_clipnorm=0.1)
    return fitted(model, *numbers(samples), {"optimizer": optimizer, "jit_compile": True, "metrics": ["accuracy"]})


@case("`jit_compile=True` with masks and added losses")
def xla_with_masks_and_added_losses(samples: int) -> dict[str, Any]:
    ids = tokens(samples)
    model = token_classifier(layers.Dense(5, activation="tanh", activity_regularizer="l2"))
    return fitted(model, ids, ids % 3, {"jit_compile": True, "metrics": ["accuracy"]})


@case("`jit_compile=True` with `steps_per_execution`")
def xla_and_steps_per_execution(samples: int) -> dict[str, Any]:
    settings = {"jit_compile": True, "steps_per_execution": 2}
    return fitted(classifier(), *numbers(samples), settings, validation_data=numbers(33, seed=6))


@case("`jit_compile=True` with a `train_step` of one's own")
def xla_in_a_step_of_ones_own(samples: int) -> dict[str, Any]:
    return fitted(of(OwnStep), *numbers(samples), {"jit_compile": True})


@keras.saving.register_keras_serializable("tests")
class OwnSoftmax(layers.Layer):
    def call(self, inputs: Any) -> Any:
        return tf.nn.softmax(inputs)


@case("`jit_compile=True` with probabilities of very large logits, of Keras's activations and TensorFlow's operations")
def xla_of_very_large_logits(samples: int) -> dict[str, Any]:
    """Keras takes the logits where it finds them: of probabilities it would cut off what is close to 0."""
    inputs = keras.Input((6,))
    logits = layers.Dense(3, kernel_initializer=keras.initializers.RandomNormal(stddev=60.0, seed=2))
    hidden = logits(inputs)
    outputs = {
        "class": layers.Softmax(name="class")(hidden),
        "first": layers.Activation("sigmoid", name="first")(hidden[:, :1]),
        "own": OwnSoftmax(name="own")(hidden),
    }
    crossentropy = "sparse_categorical_crossentropy"
    losses = {"class": crossentropy, "first": "binary_crossentropy", "own": crossentropy}
    settings = {"optimizer": keras.optimizers.SGD(1.0), "loss": losses, "jit_compile": True}
    x, y = numbers(samples)
    return fitted(keras.Model(inputs, outputs), x, {"class": y, "first": y[:, None] % 2.0, "own": y}, settings)


@keras.saving.register_keras_serializable("tests")
class Crossentropy(layers.Layer):
    def call(self, probabilities: Any, labels: Any) -> Any:
        return keras.losses.sparse_categorical_crossentropy(labels, probabilities)


@case("`jit_compile=True` with probabilities of TensorFlow's operations given to a layer that takes a crossentropy")
def xla_of_probabilities_given_to_a_layer(samples: int) -> dict[str, Any]:
    """Keras takes the logits where it finds them: of probabilities it would cut off what is close to 0."""

    class Scored(keras.Sequential):
        def train_step(self, data: Any) -> dict[str, Any]:
            x, y = data
            with tf.GradientTape() as tape:
                loss = keras.ops.mean(self.score(tf.nn.softmax(self(x, training=True)), y))
            variables = self.trainable_variables
            self.optimizer.apply(tape.gradient(loss, variables), variables)
            return {"own_loss": loss}

    initializer = keras.initializers.RandomNormal(stddev=60.0, seed=2)
    model = Scored([keras.Input((6,)), layers.Dense(3, kernel_initializer=initializer)])
    model.score = Crossentropy()
    model.score.build((None, 3))
    settings = {"optimizer": keras.optimizers.SGD(1.0), "jit_compile": True}
    return fitted(model, *numbers(samples), settings) | ONLY_TRAINED
