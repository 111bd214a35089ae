"""Metrics."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import tensorflow as tf

import tfdist
from tests.exactness.table import case, classifier, fitted, numbers


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
