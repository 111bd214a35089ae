"""Metrics."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import tensorflow as tf

import tfdist
from tests.exactness.table import ONLY_TRAINED, case, classifier, fitted, numbers


@case("metrics: AUC, F1, precision, mean IoU, RMSE, R2, crossentropy")
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


@case("metrics of one's own: a class, a function, a scalar")
def metrics_of_ones_own(samples: int) -> dict[str, Any]:
    def per_sample(y_true: tf.Tensor, y_pred: tf.Tensor) -> tf.Tensor:
        return tf.reduce_max(tf.abs(y_true - y_pred), axis=-1)

    def scalar(y_true: tf.Tensor, y_pred: tf.Tensor) -> tf.Tensor:
        return tf.reduce_mean(tf.square(y_true - y_pred))

    x, y = numbers(samples)
    settings = {"loss": "categorical_crossentropy", "metrics": [LargeErrors(), per_sample, scalar]}
    return fitted(classifier(), x, keras.utils.to_categorical(y, 3), settings)


class LossesAddedUp(keras.metrics.Metric):
    """What a loss gives a batch, times the rows of the batch where that is a mean, divided by all samples."""

    def __init__(self, reduction: str, *, of_rows: bool) -> None:
        super().__init__(name=reduction)
        self.loss = keras.losses.SparseCategoricalCrossentropy(reduction=reduction)
        self.of_rows = of_rows
        self.total = keras.metrics.Sum()
        self.samples = self.add_variable((), "zeros", name="samples")

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        rows = keras.ops.cast(keras.ops.shape(y_true)[0], self.dtype)
        self.total.update_state(self.loss(y_true, y_pred) * (rows if self.of_rows else 1.0))
        self.samples.assign_add(rows)

    def result(self) -> Any:
        return self.total.result() / self.samples


@case("metrics of one's own that add up what losses give")
def metrics_that_add_up_losses(samples: int) -> dict[str, Any]:
    chosen = [LossesAddedUp("sum", of_rows=False), LossesAddedUp("sum_over_batch_size", of_rows=True)]
    return fitted(classifier(), *numbers(samples), {"metrics": chosen})


@case("accuracy and crossentropy, weighted and not")
def metrics_of_classes(samples: int) -> dict[str, Any]:
    x, y = numbers(samples)
    chosen = [
        "accuracy",
        keras.metrics.SparseCategoricalCrossentropy(),
    ]
    return fitted(classifier(), x, y, {"metrics": chosen, "weighted_metrics": ["accuracy"]},
                  sample_weight=np.linspace(0.0, 2.0, samples))  # fmt: skip


@case("metrics of two classes: precision-recall AUC, counts, thresholds")
def metrics_of_two_classes(samples: int) -> dict[str, Any]:
    x, y = numbers(samples, classes=2)
    chosen = [
        keras.metrics.AUC(curve="PR"),
        keras.metrics.BinaryAccuracy(),
        keras.metrics.BinaryIoU(),
        keras.metrics.FalseNegatives(),
        keras.metrics.FalsePositives(thresholds=[0.3, 0.6]),
        keras.metrics.Hinge(),
        keras.metrics.PrecisionAtRecall(0.5),
        keras.metrics.RecallAtPrecision(0.5),
        keras.metrics.SensitivityAtSpecificity(0.5),
        keras.metrics.SpecificityAtSensitivity(0.5),
        keras.metrics.TrueNegatives(),
        keras.metrics.TruePositives(),
    ]
    model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(1, activation="sigmoid")])
    return fitted(model, x, y[:, None].astype("float64"), {"loss": "binary_crossentropy", "metrics": chosen})


@case("metrics of regression: correlations, logarithms, R2")
def metrics_of_regression(samples: int) -> dict[str, Any]:
    x, _ = numbers(samples)
    chosen = [
        "mae",
        keras.metrics.ConcordanceCorrelation(),
        keras.metrics.CosineSimilarity(),
        keras.metrics.LogCoshError(),
        keras.metrics.MeanAbsolutePercentageError(),
        keras.metrics.MeanSquaredLogarithmicError(),
        keras.metrics.PearsonCorrelation(),
        keras.metrics.Poisson(),
        keras.metrics.R2Score(),
        keras.metrics.RootMeanSquaredError(),
    ]
    model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(2)])
    return fitted(model, x, np.abs(x[:, :2]), {"loss": "mse", "metrics": chosen})


class LargestError(keras.metrics.Metric):
    """A maximum, which is no sum over samples."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.largest = self.add_variable((), "zeros", name="largest")

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        self.largest.assign(tf.maximum(self.largest, tf.reduce_max(tf.abs(tf.cast(y_true, y_pred.dtype) - y_pred))))

    def result(self) -> Any:
        return self.largest


class MostHits(LargestError):
    """The most hits of a batch: after a single update from zero a sum over samples, and then none."""

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        hits = tf.equal(tf.cast(tf.reshape(y_true, [-1]), tf.int64), tf.argmax(y_pred, axis=-1))
        self.largest.assign(tf.maximum(self.largest, tf.reduce_sum(tf.cast(hits, self.dtype))))


class CategoricalTruePositives(keras.metrics.Metric):
    """That of Keras's guide to training: labels of shape (samples,) meet predictions of shape (samples, 1)."""

    def __init__(self, name: str = "categorical_true_positives", **options: Any) -> None:
        super().__init__(name=name, **options)
        self.true_positives = self.add_variable(shape=(), name="ctp", initializer="zeros")

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        y_pred = keras.ops.reshape(keras.ops.argmax(y_pred, axis=1), (-1, 1))
        values = keras.ops.cast(y_true, "int32") == keras.ops.cast(y_pred, "int32")
        values = keras.ops.cast(values, "float32")
        if sample_weight is not None:
            values = keras.ops.multiply(values, keras.ops.cast(sample_weight, "float32"))
        self.true_positives.assign_add(keras.ops.cast(keras.ops.sum(values), self.dtype))

    def result(self) -> Any:
        return self.true_positives.value

    def reset_state(self) -> None:
        self.true_positives.assign(0.0)


class AnyAbove(keras.metrics.Metric):
    """In variables that nothing adds up: whether a prediction was above a number, and the batches, modulo 256."""

    def __init__(self) -> None:
        super().__init__(name="any")
        self.found = self.add_variable((), "zeros", dtype="bool", name="found")
        self.batches = self.add_variable((), "zeros", dtype="uint8", name="batches")

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        self.found.assign(keras.ops.logical_or(self.found, keras.ops.any(y_pred > 0.3)))
        self.batches.assign(self.batches + keras.ops.cast(1, "uint8"))

    def result(self) -> Any:
        return {"above": keras.ops.cast(self.found, "float32"), "batches": keras.ops.cast(self.batches, "float32")}


@case("metric classes of one's own that are no sums over samples: gathered by themselves")
def metrics_that_are_no_sums(samples: int) -> dict[str, Any]:
    x, y = numbers(samples, classes=10)
    model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(10, activation="softmax")])
    compiled = {
        "metrics": [CategoricalTruePositives(), MostHits(name="most"), AnyAbove()],
        "weighted_metrics": [CategoricalTruePositives(name="weighted"), "accuracy"],
    }
    return fitted(model, x, y, compiled, sample_weight=np.linspace(0.0, 2.0, samples))


@case("metric functions of one's own that are no means over samples: gathered by themselves")
def metric_functions_that_are_no_means(samples: int) -> dict[str, Any]:
    def worst(y_true: tf.Tensor, y_pred: tf.Tensor) -> tf.Tensor:
        return keras.ops.max(keras.losses.sparse_categorical_crossentropy(y_true, y_pred))

    def median(y_true: tf.Tensor, y_pred: tf.Tensor) -> tf.Tensor:
        return keras.ops.median(y_pred)

    def total(y_true: tf.Tensor, y_pred: tf.Tensor) -> tf.Tensor:
        return keras.ops.sum(keras.losses.sparse_categorical_crossentropy(y_true, y_pred))

    def largest_of_each_class(y_true: tf.Tensor, y_pred: tf.Tensor) -> tf.Tensor:
        return keras.ops.max(y_pred, axis=0)

    return fitted(classifier(), *numbers(samples), {"metrics": [worst, median, total, largest_of_each_class]})


class LargestLoss(LargestError):
    """The largest loss of a step, as a scalar that the step has computed."""

    def update_state(self, value: Any) -> None:
        self.largest.assign(tf.maximum(self.largest, tf.cast(tf.reduce_max(value), self.dtype)))


class Peaks(keras.layers.Layer):
    """A layer that keeps the largest value that it has seen."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.peak = LargestLoss(name="peak")

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        self.peak.update_state(inputs)
        return inputs


class Watching(keras.Model):
    """Its steps update metrics of its own, of which some are no sums over samples."""

    def __init__(self) -> None:
        super().__init__()
        self.body = keras.Sequential([keras.layers.Dense(8, activation="tanh"), Peaks()])
        self.head = keras.layers.Dense(3, activation="softmax")
        self.largest_loss = LargestLoss(name="largest_loss")
        self.most = MostHits(name="most")

    def call(self, x: tf.Tensor) -> tf.Tensor:
        return self.head(self.body(x))

    def train_step(self, data: Any) -> dict[str, Any]:
        x, y = data
        with tf.GradientTape() as tape:
            y_pred = self(x, training=True)
            loss = self.compute_loss(x, y, y_pred)
        self.optimizer.apply(tape.gradient(loss, self.trainable_variables), self.trainable_variables)
        self.largest_loss.update_state(loss)
        self.most.update_state(y, y_pred)
        return {metric.name: metric.result() for metric in (self.largest_loss, self.most, self.body.layers[1].peak)}


@case("metrics of one's own that are no sums, updated by a layer and by a step")
def own_metrics_everywhere(samples: int) -> dict[str, Any]:
    return fitted(Watching(), *numbers(samples)) | {"evaluate": False}


class MeansOfClasses(keras.Model):
    """Its step measures a mean for each class, which is no value a sample, and means that it weighs."""

    def __init__(self) -> None:
        super().__init__()
        self.head = keras.layers.Dense(3, activation="softmax")
        self.classes = keras.metrics.Mean(name="classes")
        self.total = keras.metrics.Sum(name="total")
        self.weighed = keras.metrics.Mean(name="weighed")

    def call(self, x: tf.Tensor) -> tf.Tensor:
        return self.head(x)

    def train_step(self, data: Any) -> dict[str, Any]:
        x, y = data
        with tf.GradientTape() as tape:
            y_pred = self(x, training=True)
            loss = self.compute_loss(x, y, y_pred)
        self.optimizer.apply(tape.gradient(loss, self.trainable_variables), self.trainable_variables)
        means = tf.reduce_mean(tf.square(y_pred) * [1.0, 2.0, 3.0], axis=0)
        self.classes.update_state(means, sample_weight=[0.5, 1.0, 2.0])
        self.total.update_state(means)
        for weight, value in ((3.0, loss), (1, 2 * loss), (tf.shape(x)[0], tf.reduce_mean(x))):
            self.weighed.update_state(value, sample_weight=weight)
        return {metric.name: metric.result() for metric in (self.classes, self.total, self.weighed)}


@case("`train_step` of one's own that takes the mean of a vector with one value a class")
def means_of_classes(samples: int) -> dict[str, Any]:
    return fitted(MeansOfClasses(), *numbers(samples)) | {"evaluate": False, "predict": False}


@case("the same with `run_eagerly`, where a replica may have as many samples as there are classes")
def means_of_classes_eagerly(samples: int) -> dict[str, Any]:
    made = fitted(MeansOfClasses(), *numbers(samples), {"run_eagerly": True}, batch_size=9)
    return made | {"evaluate": False, "predict": False}


@case("`tfdist.gathered` of a maximum and of a median")
def gathered_metrics(samples: int) -> dict[str, Any]:
    def median(y_true: tf.Tensor, y_pred: tf.Tensor) -> tf.Tensor:
        return keras.ops.median(y_pred)

    x, y = numbers(samples)
    chosen = [tfdist.gathered(LargestError()), tfdist.gathered(median)]
    return fitted(
        classifier(), x, keras.utils.to_categorical(y, 3), {"loss": "categorical_crossentropy", "metrics": chosen}
    )


@keras.saving.register_keras_serializable("tfdist.tests")
class Measuring(keras.layers.Layer):
    """A layer with metrics and a loss of its own, as of the time when layers had `add_metric`."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.size = keras.metrics.Mean(name="size")
        self.spread = keras.metrics.Mean(name="spread")

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        squares = tf.reduce_sum(tf.square(inputs), axis=-1)
        self.size.update_state(squares)
        self.spread.update_state(tf.reduce_mean(squares))
        self.add_loss(0.01 * tf.reduce_mean(squares))
        return inputs


@case("metrics that a layer updates in its call")
def metrics_inside_a_layer(samples: int) -> dict[str, Any]:
    model = keras.Sequential(
        [
            keras.Input((6,)),
            keras.layers.Dense(8, activation="tanh"),
            Measuring(),
            keras.layers.Dense(3, activation="softmax"),
        ]
    )
    return fitted(model, *numbers(samples), {"metrics": ["accuracy"]})


class Smoothed(keras.metrics.Metric):
    """A mean with five samples of error 2 before the first; an epoch begins with none or with them again."""

    def __init__(self, *, again: bool, **options: Any) -> None:
        super().__init__(**options)
        self._again = again
        self.total = self.add_weight(name="total", initializer=keras.initializers.Constant(10.0))
        self.count = self.add_weight(name="count", initializer=keras.initializers.Constant(5.0))

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        self.total.assign_add(keras.ops.sum(keras.ops.abs(keras.ops.mean(y_pred, axis=1))))
        self.count.assign_add(keras.ops.cast(keras.ops.shape(y_pred)[0], self.count.dtype))

    def reset_state(self) -> None:
        super().reset_state()
        if self._again:
            self.total.assign(10.0)
            self.count.assign(5.0)

    def result(self) -> Any:
        return self.total / self.count


@case("metrics whose state does not begin at zero")
def metrics_that_begin_with_samples(samples: int) -> dict[str, Any]:
    metrics = [Smoothed(again=False, name="once"), Smoothed(again=True, name="again")]
    return fitted(classifier(), *numbers(samples), {"metrics": metrics})


@case("metrics that a script updates by hand, on predictions")
def metrics_by_hand(samples: int) -> dict[str, Any]:
    """Some count in whole numbers, of which a replica's share would be none."""
    x, y = numbers(samples)
    model = classifier()
    made = fitted(model, x, y)
    predicted = model.predict(x, verbose=0)
    of_classes = [keras.metrics.SparseCategoricalAccuracy(), keras.metrics.MeanIoU(3, sparse_y_pred=False)]
    of_errors = [keras.metrics.BinaryIoU([0, 1]), keras.metrics.AUC(), keras.metrics.R2Score()]
    for rows in (slice(0, samples, 2), slice(1, samples, 2)):
        for metric in of_classes:
            metric.update_state(y[rows], predicted[rows])
        for metric in of_errors:
            metric.update_state(keras.utils.to_categorical(y[rows], 3), predicted[rows])
    seen = [float(metric.result()) for metric in of_classes + of_errors]
    of_classes[1].reset_state()
    of_classes[1].update_state(y[:3], predicted[:3])
    return made | ONLY_TRAINED | {"seen": [*seen, float(of_classes[1].result())]}
