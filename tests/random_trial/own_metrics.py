"""Metrics as people write them themselves; see `own_parts`."""

from __future__ import annotations

import keras

ops = keras.ops


class SumMetric(keras.metrics.Metric):
    """A sum over samples."""

    def __init__(self, name="sum_metric", **options):
        super().__init__(name=name, **options)
        self.total = self.add_weight(name="total", initializer="zeros")

    def update_state(self, y_true, y_pred, sample_weight=None):
        values = ops.sum(ops.cast(y_pred, self.dtype), axis=-1)
        if sample_weight is not None:
            values = values * ops.reshape(ops.cast(sample_weight, self.dtype), ops.shape(values))
        self.total.assign_add(ops.sum(values))

    def result(self):
        return self.total


class LargestMetric(keras.metrics.Metric):
    """No sum."""

    def __init__(self, name="largest_metric", **options):
        super().__init__(name=name, **options)
        self.largest = self.add_weight(name="largest", initializer="zeros")

    def update_state(self, y_true, y_pred, sample_weight=None):
        self.largest.assign(ops.maximum(self.largest, ops.max(ops.abs(ops.cast(y_pred, self.dtype)))))

    def result(self):
        # Not the variable itself, which Keras on one device reads after the validation has changed it.
        return ops.copy(self.largest)


class BatchMeans(keras.metrics.Metric):
    """A mean of batches, whatever their size."""

    def __init__(self, name="batch_means", **options):
        super().__init__(name=name, **options)
        self.total = self.add_weight(name="total", initializer="zeros")
        self.batches = self.add_weight(name="batches", initializer="zeros")

    def update_state(self, y_true, y_pred, sample_weight=None):
        self.total.assign_add(ops.mean(ops.cast(y_pred, self.dtype)))
        self.batches.assign_add(1.0)

    def result(self):
        return self.total / ops.maximum(self.batches, 1.0)


class PairMetric(keras.metrics.Metric):
    """A mean over pairs of samples."""

    def __init__(self, name="pair_metric", **options):
        super().__init__(name=name, **options)
        self.total = self.add_weight(name="total", initializer="zeros")

    def update_state(self, y_true, y_pred, sample_weight=None):
        rows = ops.reshape(ops.cast(y_pred, self.dtype), (ops.shape(y_pred)[0], -1))
        self.total.assign_add(ops.mean(ops.matmul(rows, ops.transpose(rows))))

    def result(self):
        return ops.copy(self.total)
