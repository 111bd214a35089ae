"""Losses in which the result for a sample depends on the others of its batch."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import tensorflow as tf

import tfdist
from tests.exactness.precision_cases import FLOAT16
from tests.exactness.table import ONLY_TRAINED, case, fitted, numbers

layers, ops = keras.layers, keras.ops


def embedder(dtype: Any = None) -> keras.Model:
    """Rows of length one."""
    return keras.Sequential(
        [
            keras.Input((6,)),
            layers.Dense(8, activation="tanh", dtype=dtype),
            layers.Dense(4, dtype=dtype),
            layers.UnitNormalization(dtype=dtype),
        ]
    )


def segmenter() -> keras.Model:
    return keras.Sequential(
        [
            keras.Input((4, 4, 1)),
            layers.Conv2D(3, 3, padding="same", activation="tanh"),
            layers.Conv2D(1, 1, activation="sigmoid"),
        ]
    )


def images(samples: int) -> tuple[np.ndarray, np.ndarray]:
    """Images, and which of their pixels are bright."""
    pixels = numbers(samples, features=16)[0].reshape(-1, 4, 4, 1)
    return pixels, (pixels + np.roll(pixels, 1, axis=1) > 0.5).astype(int)


def weights(samples: int) -> np.ndarray:
    return np.random.default_rng(8).exponential(size=samples)


@case("`keras.losses.Circle`")
def circle_loss(samples: int) -> dict[str, Any]:
    return fitted(embedder(), *numbers(samples), {"loss": keras.losses.Circle(gamma=4)})


@case("`keras.losses.Circle` with weights, summed")
def circle_loss_with_weights(samples: int) -> dict[str, Any]:
    loss = keras.losses.Circle(gamma=4, reduction="sum")
    settings = {"loss": loss, "optimizer": keras.optimizers.SGD(0.003)}
    return fitted(embedder(), *numbers(samples), settings, sample_weight=weights(samples))


@case("`keras.losses.Dice`")
def dice_loss(samples: int) -> dict[str, Any]:
    return fitted(segmenter(), *images(samples), {"loss": "dice", "metrics": ["accuracy"]})


@case("`keras.losses.Dice` along the samples, with weights")
def dice_loss_along_the_samples(samples: int) -> dict[str, Any]:
    loss = keras.losses.Dice(axis=(0, 1, 2), reduction="mean_with_sample_weight")
    return fitted(segmenter(), *images(samples), {"loss": loss})


@case("`keras.losses.Tversky`")
def tversky_loss(samples: int) -> dict[str, Any]:
    loss = keras.losses.Tversky(alpha=0.3, beta=0.7)
    return fitted(segmenter(), *images(samples), {"loss": loss}, sample_weight=weights(samples))


@case("`Dice`, `Tversky` and a crossentropy of several outputs, with class weights")
def coupled_losses_of_several_outputs(samples: int) -> dict[str, Any]:
    pixels, bright = images(samples)
    inputs = keras.Input((4, 4, 1))
    hidden = layers.Conv2D(3, 3, padding="same", activation="tanh")(inputs)
    outputs = {
        "overlap": layers.Conv2D(1, 1, activation="sigmoid", name="overlap")(hidden),
        "weighed": layers.Conv2D(1, 1, activation="sigmoid", name="weighed")(hidden),
        "class": layers.Dense(3, activation="softmax", name="class")(layers.Flatten()(hidden)),
    }
    settings = {
        "loss": {"overlap": keras.losses.dice, "weighed": "Tversky", "class": "sparse_categorical_crossentropy"},
        "loss_weights": {"overlap": 1.0, "weighed": 0.3, "class": 2.0},
    }
    targets = {"overlap": bright, "weighed": 1 - bright, "class": numbers(samples)[1]}
    weight = {"overlap": weights(samples), "weighed": weights(samples) ** 2, "class": weights(samples)}
    return fitted(keras.Model(inputs, outputs), pixels, targets, settings, sample_weight=weight)


@case("`Dice` of masked time steps")
def dice_loss_of_masked_steps(samples: int) -> dict[str, Any]:
    x = np.repeat(numbers(samples)[0][:, :, None], 3, axis=2) * [1.0, 2.0, 3.0]
    x[np.arange(6) >= np.random.default_rng(5).integers(1, 7, samples)[:, None]] = 0
    model = keras.Sequential([keras.Input((6, 3)), layers.Masking(), layers.Dense(1, activation="sigmoid")])
    return fitted(model, x, (x.sum(axis=-1, keepdims=True) > 0).astype(int), {"loss": "dice"})


@case("predictions of one dimension, compared along the batch")
def cosine_similarity_along_the_samples(samples: int) -> dict[str, Any]:
    model = keras.Sequential([keras.Input((6,)), layers.Dense(1), layers.Reshape(())])
    x, _ = numbers(samples)
    return fitted(model, x, x[:, 0] ** 2, {"loss": "cosine_similarity"}) | ONLY_TRAINED


@case("hinge losses of labels that are not 0 and 1 alone")
def hinge_of_other_labels(samples: int) -> dict[str, Any]:
    """Keras converts labels when all of the batch are 0 or 1."""
    x, _ = numbers(samples)
    labels = np.where(np.arange(samples) % 32 == 3, -1, np.arange(samples) % 2)
    model = keras.Sequential([keras.Input((6,)), layers.Dense(1)])
    return fitted(model, x, labels[:, None], {"loss": "hinge", "metrics": ["squared_hinge"]})


@keras.saving.register_keras_serializable("tfdist.tests")
class Temperature(layers.Layer):
    """Hands its inputs on, and holds a number that a loss reads and training changes."""

    def build(self, shape: Any) -> None:
        self.value = self.add_weight(shape=(), initializer=keras.initializers.Constant(0.5), name="temperature")

    def call(self, inputs: Any) -> Any:
        return inputs


class PairLoss(keras.losses.Loss):
    """Which text belongs to which image of the batch, as CLIP asks: one value a sample, over all samples."""

    def __init__(self, temperature: Temperature, **options: Any) -> None:
        super().__init__(**options)
        self.temperature = temperature

    def call(self, y_true: Any, y_pred: Any) -> Any:
        scale = ops.exp(ops.cast(self.temperature.value, y_pred.dtype))
        logits = ops.matmul(y_pred[:, 0], ops.transpose(y_pred[:, 1])) * scale
        labels = ops.arange(ops.shape(logits)[0])
        return sum(
            keras.losses.sparse_categorical_crossentropy(labels, side, from_logits=True)
            for side in (logits, ops.transpose(logits))
        )


def pairs(dtype: Any = None) -> tuple[keras.Model, Temperature]:
    """A model of two outputs: embeddings of both halves of the features, and classes."""
    inputs, temperature = keras.Input((6,)), Temperature(dtype=dtype)
    hidden = layers.Dense(8, activation="tanh", dtype=dtype)(inputs)
    both = layers.Reshape((2, 4), dtype=dtype, name="pairs")(temperature(hidden))
    classes = layers.Dense(3, activation="softmax", dtype=dtype, name="class")(hidden)
    return keras.Model(inputs, {"pairs": both, "class": classes}), temperature


def fitted_pairs(samples: int, **settings: Any) -> dict[str, Any]:
    model, temperature = pairs()
    losses = {"pairs": PairLoss(temperature), "class": "sparse_categorical_crossentropy"}
    x, y = numbers(samples)
    compiled = {"loss": losses, "loss_weights": {"pairs": 0.3, "class": 1.0}, **settings}
    return fitted(model, x, {"pairs": y, "class": y}, compiled, sample_weight={"pairs": weights(samples), "class": y})


@case("a CLIP loss with a temperature that is learned, and a second output")
def clip_loss_with_a_temperature(samples: int) -> dict[str, Any]:
    return fitted_pairs(samples, optimizer=keras.optimizers.SGD(0.1, global_clipnorm=0.5))


@case("the same with `jit_compile=True`")
def clip_loss_under_xla(samples: int) -> dict[str, Any]:
    return fitted_pairs(samples, jit_compile=True)


@case("the same with `run_eagerly=True`")
def clip_loss_run_eagerly(samples: int) -> dict[str, Any]:
    return fitted_pairs(samples, run_eagerly=True)


@case("the same in `mixed_float16`", FLOAT16)
def clip_loss_in_mixed_float16(samples: int) -> dict[str, Any]:
    return fitted_pairs(samples, optimizer=keras.optimizers.Adam(0.01))


@case("a SimCLR loss as a function")
def simclr_loss_function(samples: int) -> dict[str, Any]:
    def contrast(y_true: Any, y_pred: Any) -> Any:
        views = ops.concatenate([y_pred[:, :2], y_pred[:, 2:]])
        count = ops.shape(views)[0]
        alike = ops.matmul(views, ops.transpose(views)) * 2.0 - 1e9 * ops.eye(count, dtype=views.dtype)
        partner = ops.mod(ops.arange(count) + count // 2, count)
        return ops.mean(keras.losses.sparse_categorical_crossentropy(partner, alike, from_logits=True))

    return fitted(embedder(), *numbers(samples), {"loss": contrast})


@case("a loss that ranks all pairs of the batch, with weights")
def pair_ranking_loss(samples: int) -> dict[str, Any]:
    def ranking(y_true: Any, y_pred: Any) -> Any:
        ahead = ops.cast(y_true > ops.transpose(y_true), y_pred.dtype)
        losses = ops.softplus(ops.transpose(y_pred) - y_pred) * ahead
        return ops.sum(losses) / (ops.sum(ahead) + 1e-3)

    x, y = numbers(samples, classes=10)
    model = keras.Sequential([keras.Input((6,)), layers.Dense(8, activation="tanh"), layers.Dense(1)])
    return fitted(model, x, y[:, None], {"loss": ranking}, sample_weight=weights(samples))


@case("a loss function that returns a sum")
def scalar_sum_loss(samples: int) -> dict[str, Any]:
    def sum_of_squares(y_true: Any, y_pred: Any) -> Any:
        return ops.sum(ops.square(y_true - y_pred))

    x, _ = numbers(samples)
    model = keras.Sequential([keras.Input((6,)), layers.Dense(3)])
    return fitted(model, x, x[:, :3] ** 2, {"loss": sum_of_squares, "optimizer": keras.optimizers.SGD(0.003)})


@case("a loss function that takes the mean of the labels that are not -1")
def loss_of_valid_labels(samples: int) -> dict[str, Any]:
    def valid_mean(y_true: Any, y_pred: Any) -> Any:
        valid = ops.cast(y_true != -1, y_pred.dtype)
        return ops.sum(ops.square(y_true - y_pred) * valid) / ops.maximum(ops.sum(valid), 1)

    x, _ = numbers(samples)
    y = np.where(np.arange(samples)[:, None] % 5 < [2, 1, 4], -1.0, x[:, :3] ** 2)
    model = keras.Sequential([keras.Input((6,)), layers.Dense(3)])
    return fitted(model, x, y, {"loss": valid_mean})


@case("a loss function that says of its sum that it is one")
def scalar_declared_sum_loss(samples: int) -> dict[str, Any]:
    def sum_of_squares(y_true: Any, y_pred: Any) -> Any:
        return 0.5 * tfdist.summed(ops.sum(ops.square(y_true - y_pred)))

    x, _ = numbers(samples)
    model = keras.Sequential([keras.Input((6,)), layers.Dense(3)])
    return fitted(model, x, x[:, :3] ** 2, {"loss": sum_of_squares, "optimizer": keras.optimizers.SGD(0.003)})


@case("the largest error of the batch, `tfdist.gathered`, as loss and metric")
def gathered_function_as_loss_and_metric(samples: int) -> dict[str, Any]:
    def largest(y_true: Any, y_pred: Any) -> Any:
        return ops.max(ops.abs(y_true - y_pred))

    x, _ = numbers(samples)
    model = keras.Sequential([keras.Input((6,)), layers.Dense(3)])
    settings = {"loss": tfdist.gathered(largest), "metrics": [tfdist.gathered(largest), "mae"]}
    return fitted(model, x, x[:, :3] ** 2, settings)


@case("a contrastive loss object in a `train_step` of one's own")
def contrastive_loss_in_a_step_of_ones_own(samples: int) -> dict[str, Any]:
    class Contrastive(keras.Model):
        def train_step(self, data: Any) -> dict[str, Any]:
            x, y = data
            with tf.GradientTape() as tape:
                pred = self(x, training=True)
                loss = self.match(y, pred["pairs"]) + 0.1 * keras.losses.Dice()(ops.one_hot(y, 3), pred["class"])
            self.optimizer.apply(tape.gradient(loss, self.trainable_weights), self.trainable_weights)
            return {"loss": loss}

    model, temperature = pairs()
    own = Contrastive(model.inputs, dict(zip(model.output_names, model.outputs, strict=True)))
    own.match = PairLoss(temperature)
    return fitted(own, *numbers(samples), {"loss": None}) | ONLY_TRAINED


class CenteredClasses(layers.Layer):
    """Probabilities of classes, far from the mean of the batch, as Keras's or TensorFlow's softmax computes them."""

    def __init__(self, softmax: Any) -> None:
        super().__init__()
        self.softmax = softmax

    def call(self, inputs: Any) -> Any:
        return self.softmax(60 * (inputs - ops.mean(inputs, axis=0)))


def _from_logits(samples: int, *last: layers.Layer) -> dict[str, Any]:
    def masked_mean(y_true: Any, y_pred: Any) -> Any:
        each = keras.losses.sparse_categorical_crossentropy(y_true, y_pred, from_logits=True)
        valid = ops.cast(y_true > 0, each.dtype)
        return ops.sum(each * valid) / ops.sum(valid)

    metric = keras.metrics.SparseCategoricalCrossentropy()
    model = keras.Sequential([keras.Input((6,)), layers.Dense(3, use_bias=False), *last])
    x, y = numbers(samples)
    return fitted(model, x, y, {"optimizer": "adam", "loss": masked_mean, "metrics": [metric]}) | ONLY_TRAINED


@case("a loss over the batch that takes probabilities for logits, of which Keras takes the softmax's logits")
def gathered_loss_of_probabilities(samples: int) -> dict[str, Any]:
    return _from_logits(samples, CenteredClasses(keras.activations.softmax))


@case("such a loss of a softmax of TensorFlow's")
def gathered_loss_of_a_softmax_of_tensorflow(samples: int) -> dict[str, Any]:
    return _from_logits(samples, CenteredClasses(tf.nn.softmax))
