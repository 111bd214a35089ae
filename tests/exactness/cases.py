"""What people fit with Keras: one function a feature, each an ordinary script that knows nothing of replicas.

A case takes the number of samples and returns what `outcome` reads: the model, the history and the data to evaluate
and predict on. All run in float64, where rounding is far below any fault of the method.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf

BATCH = 32
EPOCHS = 3
layers = keras.layers

Case = Callable[[int], dict[str, Any]]
CASES: dict[str, Case] = {}


def case(function: Case) -> Case:
    CASES[function.__name__] = function
    return function


def outcome(name: str, samples: int) -> dict[str, Any]:
    """Runs a case from fixed seeds and returns its numbers: history, weights, evaluation, predictions."""
    before = keras.backend.floatx()
    keras.backend.clear_session()
    keras.backend.set_floatx("float64")
    keras.utils.set_random_seed(11)
    try:
        return _numbers_of(CASES[name](samples))
    finally:
        keras.backend.set_floatx(before)
        # Keras keeps the dtype policy that it first made of it.
        keras.backend.clear_session()


def _numbers_of(made: dict[str, Any]) -> dict[str, Any]:
    model, x = made["model"], made["x"]
    evaluate = {} if made.get("y") is None else {"y": made["y"]}
    options = {} if made.get("y") is None else {"batch_size": BATCH}
    return {
        "history": made["history"].history,
        "iterations": int(model.optimizer.iterations.numpy()),
        "weights": [weight.tolist() for weight in model.get_weights()],
        "evaluate": model.evaluate(x, **evaluate, **options, verbose=0, return_dict=True),
        "predict": [np.asarray(p).tolist() for p in keras.tree.flatten(model.predict(x, **options, verbose=0))],
    }


def numbers(samples: int, features: int = 6, classes: int = 3, seed: int = 5) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    x = generator.normal(size=(samples, features))
    return x, generator.integers(0, classes, samples)


def tokens(samples: int, length: int = 7, seed: int = 5) -> np.ndarray:
    """Rows of word ids that end in 0, the padding, at very different lengths."""
    generator = np.random.default_rng(seed)
    ids = generator.integers(1, 20, (samples, length))
    ids[np.arange(length) >= generator.integers(1, length + 1, samples)[:, None]] = 0
    return ids


def classifier(**options: Any) -> keras.Model:
    return keras.Sequential(
        [keras.Input((6,)), layers.Dense(8, activation="tanh", **options), layers.Dense(3, activation="softmax")]
    )


def fitted(model: keras.Model, x: Any, y: Any, compiled: dict[str, Any] | None = None, **fit: Any) -> dict[str, Any]:
    settings = {"optimizer": keras.optimizers.SGD(0.1, momentum=0.9), "loss": "sparse_categorical_crossentropy"}
    model.compile(**settings | (compiled or {}))
    history = model.fit(x, y, batch_size=BATCH, epochs=EPOCHS, verbose=0, **fit)
    return {"model": model, "x": x, "y": y, "history": history}


@case
def plain(samples: int) -> dict[str, Any]:
    return fitted(classifier(), *numbers(samples), {"metrics": ["accuracy"]})


@case
def validation_split(samples: int) -> dict[str, Any]:
    return fitted(classifier(), *numbers(samples), {"metrics": ["accuracy"]}, validation_split=0.3)


@case
def validation_data(samples: int) -> dict[str, Any]:
    return fitted(classifier(), *numbers(samples), validation_data=numbers(33, seed=6))


@case
def regularizers(samples: int) -> dict[str, Any]:
    model = classifier(kernel_regularizer="l2", bias_regularizer="l1", activity_regularizer="l2")
    return fitted(model, *numbers(samples))


@case
def sample_weight(samples: int) -> dict[str, Any]:
    weight = np.random.default_rng(8).uniform(size=samples)
    weight[: samples // 3] = 0.0
    settings = {"metrics": ["accuracy"], "weighted_metrics": ["accuracy"]}
    return fitted(classifier(), *numbers(samples), settings, sample_weight=weight)


@case
def class_weight(samples: int) -> dict[str, Any]:
    return fitted(classifier(), *numbers(samples), class_weight={0: 1.0, 1: 5.0, 2: 0.2})


@case
def mask_of_an_embedding(samples: int) -> dict[str, Any]:
    ids = tokens(samples)
    model = keras.Sequential(
        [
            keras.Input((7,)),
            layers.Embedding(20, 4, mask_zero=True),
            layers.LSTM(5, return_sequences=True),
            layers.Dense(3, activation="softmax"),
        ]
    )
    return fitted(model, ids, ids % 3, {"metrics": ["accuracy"]})


@case
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


@case
def mask_and_sample_weight(samples: int) -> dict[str, Any]:
    ids = tokens(samples)
    model = keras.Sequential(
        [keras.Input((7,)), layers.Embedding(20, 4, mask_zero=True), layers.Dense(3, activation="softmax")]
    )
    weight = np.random.default_rng(8).uniform(size=(samples, 7))
    return fitted(model, ids, ids % 3, sample_weight=weight)


@case
def mean_with_sample_weight(samples: int) -> dict[str, Any]:
    loss = keras.losses.SparseCategoricalCrossentropy(reduction="mean_with_sample_weight")
    weight = np.random.default_rng(8).exponential(size=samples)
    return fitted(classifier(), *numbers(samples), {"loss": loss}, sample_weight=weight)


@case
def mean_with_sample_weight_and_no_weight(samples: int) -> dict[str, Any]:
    loss = keras.losses.SparseCategoricalCrossentropy(reduction="mean_with_sample_weight")
    return fitted(classifier(), *numbers(samples), {"loss": loss})


@case
def reduction_sum(samples: int) -> dict[str, Any]:
    loss = keras.losses.SparseCategoricalCrossentropy(reduction="sum")
    return fitted(classifier(), *numbers(samples), {"loss": loss, "optimizer": keras.optimizers.SGD(0.003)})


@case
def loss_function_of_ones_own(samples: int) -> dict[str, Any]:
    def squared(y_true: tf.Tensor, y_pred: tf.Tensor) -> tf.Tensor:
        return tf.reduce_sum(tf.square(y_true - y_pred), axis=-1)

    x, y = numbers(samples)
    return fitted(classifier(), x, keras.utils.to_categorical(y, 3), {"loss": squared, "metrics": [squared]})


@case
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


@case
def add_loss_of_a_mean_and_of_a_vector(samples: int) -> dict[str, Any]:
    model = keras.Sequential(
        [keras.Input((6,)), layers.Dense(8, activation="tanh"), AddsLoss(), layers.Dense(3, activation="softmax")]
    )
    return fitted(model, *numbers(samples))


@case
def clipnorm(samples: int) -> dict[str, Any]:
    return fitted(classifier(), *numbers(samples), {"optimizer": keras.optimizers.SGD(0.5, clipnorm=0.05)})


@case
def global_clipnorm(samples: int) -> dict[str, Any]:
    return fitted(classifier(), *numbers(samples), {"optimizer": keras.optimizers.SGD(0.5, global_clipnorm=0.05)})


@case
def clipvalue(samples: int) -> dict[str, Any]:
    return fitted(classifier(), *numbers(samples), {"optimizer": keras.optimizers.SGD(0.5, clipvalue=0.01)})


@case
def adamw_and_schedule(samples: int) -> dict[str, Any]:
    rate = keras.optimizers.schedules.CosineDecay(0.01, 20)
    return fitted(classifier(), *numbers(samples), {"optimizer": keras.optimizers.AdamW(rate, weight_decay=0.1)})


@case
def moving_average_of_the_weights(samples: int) -> dict[str, Any]:
    optimizer = keras.optimizers.SGD(0.1, use_ema=True, ema_momentum=0.8)
    return fitted(classifier(), *numbers(samples), {"optimizer": optimizer})


@case
def metrics(samples: int) -> dict[str, Any]:
    x, y = numbers(samples)
    chosen = [
        keras.metrics.AUC(name="auc"),
        keras.metrics.F1Score(name="f1"),
        keras.metrics.Precision(name="precision"),
        keras.metrics.OneHotMeanIoU(3, name="iou"),
        keras.metrics.RootMeanSquaredError(name="rmse"),
        keras.metrics.R2Score(name="r2"),
        keras.metrics.CategoricalCrossentropy(name="entropy"),
    ]
    settings = {"loss": "categorical_crossentropy", "metrics": chosen}
    return fitted(classifier(), x, keras.utils.to_categorical(y, 3), settings)


@keras.saving.register_keras_serializable("tfdist.tests")
class LargeErrors(keras.metrics.Metric):
    """The share of samples whose error is large: a metric of ones own, and a sum over samples."""

    def __init__(self, name: str = "large", **options: Any) -> None:
        super().__init__(name=name, **options)
        self.large = self.add_variable((), "zeros", name="large")
        self.samples = self.add_variable((), "zeros", name="samples")

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        error = tf.reduce_max(tf.abs(tf.cast(y_true, y_pred.dtype) - y_pred), axis=-1)
        self.large.assign_add(tf.reduce_sum(tf.cast(error > 0.5, self.dtype)))
        self.samples.assign_add(tf.cast(tf.shape(y_pred)[0], self.dtype))

    def result(self) -> Any:
        return self.large / self.samples


@case
def metrics_of_ones_own(samples: int) -> dict[str, Any]:
    def per_sample(y_true: tf.Tensor, y_pred: tf.Tensor) -> tf.Tensor:
        return tf.reduce_max(tf.abs(y_true - y_pred), axis=-1)

    def scalar(y_true: tf.Tensor, y_pred: tf.Tensor) -> tf.Tensor:
        return tf.reduce_mean(tf.square(y_true - y_pred))

    x, y = numbers(samples)
    settings = {"loss": "categorical_crossentropy", "metrics": [LargeErrors(), per_sample, scalar]}
    return fitted(classifier(), x, keras.utils.to_categorical(y, 3), settings)


@case
def synchronized_batch_normalization(samples: int) -> dict[str, Any]:
    model = keras.Sequential(
        [
            keras.Input((6,)),
            layers.Dense(8),
            layers.BatchNormalization(synchronized=True, momentum=0.7),
            layers.Dense(3, activation="softmax"),
        ]
    )
    return fitted(model, *numbers(samples))


@case
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


@case
def convolution(samples: int) -> dict[str, Any]:
    x, y = numbers(samples, features=64)
    model = keras.Sequential(
        [
            keras.Input((8, 8, 1)),
            layers.Conv2D(4, 3, activation="relu"),
            layers.MaxPool2D(2),
            layers.Flatten(),
            layers.Dense(3, activation="softmax"),
        ]
    )
    return fitted(model, x.reshape(-1, 8, 8, 1), y, {"metrics": ["accuracy"]})


@case
def convolutions_in_float32(samples: int) -> dict[str, Any]:
    """In float64 the CPU's fast kernels, which fail on no sample, do not run. Frozen, so that no rounding shows."""
    x, y = numbers(samples, features=128)
    model = keras.Sequential(
        [
            keras.Input((8, 8, 2)),
            layers.Conv2D(4, 3, strides=2, dtype="float32", trainable=False),
            layers.DepthwiseConv2D(2, dtype="float32", trainable=False),
            layers.SeparableConv2D(3, 1, dtype="float32", trainable=False),
            layers.Flatten(dtype="float32"),
            layers.Rescaling(0.0),
            layers.Dense(3, activation="softmax"),
        ]
    )
    return fitted(model, x.reshape(-1, 8, 8, 2), y, {"metrics": ["accuracy"]})


@case
def dict_inputs_and_outputs(samples: int) -> dict[str, Any]:
    x, y = numbers(samples)
    a, b = keras.Input((3,), name="a"), keras.Input((3,), name="b")
    joined = layers.Dense(5, activation="tanh")(layers.Concatenate()([a, b]))
    outputs = {"kind": layers.Dense(3, activation="softmax", name="kind")(joined), "size": layers.Dense(1)(joined)}
    model = keras.Model({"a": a, "b": b}, outputs)
    settings = {"loss": {"kind": "sparse_categorical_crossentropy", "size": "mse"}, "metrics": {"kind": ["accuracy"]}}
    return fitted(model, {"a": x[:, :3], "b": x[:, 3:]}, {"kind": y, "size": x[:, :1]}, settings)


@case
def strings(samples: int) -> dict[str, Any]:
    _, y = numbers(samples)
    words = np.array(["red", "green", "blue"])[y].astype(object)
    model = keras.Sequential(
        [
            keras.Input((), dtype="string"),
            layers.StringLookup(vocabulary=["red", "green", "blue"]),
            layers.Embedding(4, 4),
            layers.Dense(3, activation="softmax"),
        ]
    )
    data = tf.data.Dataset.from_tensor_slices((words.astype(str), y)).batch(BATCH)
    return fitted_on(model, data)


def fitted_on(model: keras.Model, data: Any, x: Any = None, **fit: Any) -> dict[str, Any]:
    """Fits on something that brings its own batches."""
    model.compile(keras.optimizers.Adam(0.01), "sparse_categorical_crossentropy", metrics=["accuracy"])
    history = model.fit(data, epochs=EPOCHS, verbose=0, **fit)
    return {"model": model, "x": data if x is None else x, "history": history}


@case
def dataset(samples: int) -> dict[str, Any]:
    return fitted_on(classifier(), tf.data.Dataset.from_tensor_slices(numbers(samples)).batch(BATCH))


@case
def dataset_that_shuffles(samples: int) -> dict[str, Any]:
    ordered = tf.data.Dataset.from_tensor_slices(numbers(samples))
    return fitted_on(classifier(), ordered.shuffle(50).batch(BATCH), ordered.batch(BATCH))


@case
def dataset_of_unknown_size(samples: int) -> dict[str, Any]:
    data = tf.data.Dataset.from_tensor_slices(numbers(samples)).batch(BATCH).filter(lambda x, y: True)
    return fitted_on(classifier(), data)


@case
def dataset_that_repeats(samples: int) -> dict[str, Any]:
    data = tf.data.Dataset.from_tensor_slices(numbers(samples)).batch(BATCH)
    return fitted_on(classifier(), data.repeat(), data, steps_per_epoch=5)


class Batches(keras.utils.PyDataset):
    def __init__(self, samples: int, **options: Any) -> None:
        super().__init__(**options)
        self.x, self.y = numbers(samples)

    def __len__(self) -> int:
        return -(-len(self.x) // BATCH)

    def __getitem__(self, index: int) -> tuple[np.ndarray, np.ndarray]:
        part = slice(index * BATCH, (index + 1) * BATCH)
        return self.x[part], self.y[part]


@case
def py_dataset(samples: int) -> dict[str, Any]:
    return fitted_on(classifier(), Batches(samples))


@case
def py_dataset_with_threads(samples: int) -> dict[str, Any]:
    return fitted_on(classifier(), Batches(samples, workers=2))


@case
def generator(samples: int) -> dict[str, Any]:
    def forever() -> Any:
        while True:
            yield from (Batches(samples)[i] for i in range(len(Batches(samples))))

    return fitted_on(classifier(), forever(), Batches(samples), steps_per_epoch=5)


@case
def ragged(samples: int) -> dict[str, Any]:
    rows = [row[row > 0] for row in tokens(samples)]
    model = keras.Sequential(
        [
            keras.Input((None,), dtype="int64"),
            layers.Embedding(20, 4),
            layers.GlobalAveragePooling1D(),
            layers.Dense(3, activation="softmax"),
        ]
    )
    data = tf.data.Dataset.from_tensor_slices((tf.ragged.constant([r.tolist() for r in rows]), numbers(samples)[1]))
    return fitted_on(model, data.batch(BATCH).map(lambda x, y: (x.to_tensor(shape=(None, 7)), y)))


@case
def steps_per_epoch(samples: int) -> dict[str, Any]:
    x, y = numbers(samples)
    return fitted(classifier(), x, y, steps_per_epoch=2, validation_data=(x, y), validation_steps=1)


@case
def frozen_layer(samples: int) -> dict[str, Any]:
    model = classifier()
    model.layers[0].trainable = False
    return fitted(model, *numbers(samples))


@case
def subclassed_model_built_by_fit(samples: int) -> dict[str, Any]:
    class Net(keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.hidden = layers.Dense(8, activation="tanh")
            self.out = layers.Dense(3, activation="softmax")

        def call(self, inputs: tf.Tensor, training: bool = False) -> tf.Tensor:
            return self.out(self.hidden(inputs))

    return fitted(Net(), *numbers(samples), {"metrics": ["accuracy"]})
