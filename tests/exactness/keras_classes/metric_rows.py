"""Metrics."""

from __future__ import annotations

from typing import Any

import keras

from tests.exactness.keras_classes.rows import Row


def _metric(name: str, on: str, *args: Any, **options: Any) -> Row:
    return Row(
        f"metrics.{name}", lambda: getattr(keras.metrics, name)(*args, name=name, dtype="float64", **options), on
    )


def _largest_error(y_true: Any, y_pred: Any) -> Any:
    """One value a sample."""
    return keras.ops.max(keras.ops.abs(keras.ops.cast(y_true, y_pred.dtype) - y_pred), axis=-1)


class _MeanOfPredictions(keras.metrics.Mean):
    """`Mean` takes values rather than labels and predictions."""

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        super().update_state(keras.ops.mean(y_pred, axis=-1), sample_weight)


class _SumOfPredictions(keras.metrics.Sum):
    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        super().update_state(keras.ops.mean(y_pred, axis=-1), sample_weight)


ROWS = (
    _metric("AUC", "binary"),
    _metric("Accuracy", "numbers"),
    _metric("BinaryAccuracy", "flags"),
    _metric("BinaryCrossentropy", "flags"),
    _metric("BinaryIoU", "flags"),
    _metric("CategoricalAccuracy", "one-hot"),
    _metric("CategoricalCrossentropy", "one-hot"),
    _metric("CategoricalHinge", "one-hot"),
    _metric("ConcordanceCorrelation", "numbers"),
    _metric("CosineSimilarity", "numbers"),
    _metric("F1Score", "one-hot"),
    _metric("FBetaScore", "one-hot", beta=2.0),
    _metric("FalseNegatives", "binary"),
    _metric("FalsePositives", "binary", thresholds=[0.4, 0.5]),
    _metric("Hinge", "signs"),
    _metric("IoU", "classes", num_classes=4, target_class_ids=[0, 2], sparse_y_pred=False),
    _metric("KLDivergence", "one-hot"),
    _metric("LogCoshError", "numbers"),
    Row("metrics.Mean", lambda: _MeanOfPredictions("Mean", "float64"), "numbers"),
    _metric("MeanAbsoluteError", "numbers"),
    _metric("MeanAbsolutePercentageError", "positive"),
    _metric("MeanIoU", "classes", num_classes=4, sparse_y_pred=False),
    Row("metrics.MeanMetricWrapper", lambda: keras.metrics.MeanMetricWrapper(
        _largest_error, name="MeanMetricWrapper", dtype="float64"), "numbers"),
    _metric("MeanSquaredError", "numbers"),
    _metric("MeanSquaredLogarithmicError", "positive"),
    _metric("OneHotIoU", "one-hot", num_classes=4, target_class_ids=[1]),
    _metric("OneHotMeanIoU", "one-hot", num_classes=4),
    _metric("PearsonCorrelation", "numbers"),
    _metric("Poisson", "positive"),
    _metric("Precision", "binary"),
    _metric("PrecisionAtRecall", "binary", 0.5),
    _metric("R2Score", "numbers"),
    _metric("Recall", "binary"),
    _metric("RecallAtPrecision", "binary", 0.5),
    _metric("RootMeanSquaredError", "numbers"),
    _metric("SensitivityAtSpecificity", "binary", 0.5),
    _metric("SparseCategoricalAccuracy", "classes"),
    _metric("SparseCategoricalCrossentropy", "classes"),
    _metric("SparseTopKCategoricalAccuracy", "classes_float32", k=2),
    _metric("SpecificityAtSensitivity", "binary", 0.5),
    _metric("SquaredHinge", "signs"),
    Row("metrics.Sum", lambda: _SumOfPredictions("Sum", "float64"), "numbers"),
    _metric("TopKCategoricalAccuracy", "one-hot_float32", k=2),
    _metric("TrueNegatives", "binary"),
    _metric("TruePositives", "binary"),
)  # fmt: skip
