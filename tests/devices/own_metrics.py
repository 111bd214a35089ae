"""Metrics of people's own, of which some add up over replicas and some do not."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from tfdist.keras_repairs.forward.metric_additivity import Merge

Mean, Sum = keras.metrics.Mean, keras.metrics.Sum


def error(y_true: Any, y_pred: Any) -> Any:
    """One value a sample."""
    return tf.reduce_mean(tf.square(tf.cast(y_true, y_pred.dtype) - y_pred), axis=-1)


def hits(y_true: Any, y_pred: Any) -> Any:
    """One value a sample, of labels that are classes or one-hot."""
    classes = y_true if len(y_true.shape) < len(y_pred.shape) else ops.argmax(y_true, axis=-1)
    return ops.cast(ops.cast(classes, "int64") == ops.cast(ops.argmax(y_pred, axis=-1), "int64"), "float64")


class PeakRatio(Mean):
    """The signal-to-noise ratio of each sample, as of images."""

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        super().update_state(-10.0 * tf.math.log(error(y_true, y_pred)) / np.log(10.0), sample_weight)


class PeakRatioOfBatches(Mean):
    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        super().update_state(tf.reduce_mean(-10.0 * tf.math.log(error(y_true, y_pred)) / np.log(10.0)))


class SumOfMeans(Sum):
    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        super().update_state(tf.reduce_mean(error(y_true, y_pred)))


class SumOfSums(Sum):
    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        super().update_state(tf.reduce_sum(error(y_true, y_pred)))


class Weighted(Mean):
    """A mean over the samples of a batch that counts by their number."""

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        count = tf.cast(tf.shape(y_pred)[0], y_pred.dtype)
        super().update_state(tf.math.divide_no_nan(tf.reduce_sum(error(y_true, y_pred)), count), sample_weight=count)


class MadeOfOthers(keras.metrics.Metric):
    """A ratio of two totals, each a metric of Keras's."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.errors, self.sizes = Sum(), Sum()

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        self.errors.update_state(tf.reduce_sum(error(y_true, y_pred)))
        self.sizes.update_state(tf.reduce_sum(tf.square(y_pred)))

    def result(self) -> Any:
        return self.errors.result() / self.sizes.result()


class Wrapped(keras.metrics.MeanMetricWrapper):
    def __init__(self, **options: Any) -> None:
        super().__init__(lambda y_true, y_pred: tf.reduce_mean(error(y_true, y_pred)), **options)


class WrappedVector(keras.metrics.MeanMetricWrapper):
    """One value a class, rather than one a sample."""

    def __init__(self, **options: Any) -> None:
        super().__init__(lambda y_true, y_pred: tf.reduce_mean(y_pred, axis=0), **options)


class State(keras.metrics.Metric):
    """One number, from zero."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.state = self.add_variable((), "zeros", name="state")

    def result(self) -> Any:
        return self.state


class Hits(State):
    """How many predictions are right."""

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        self.state.assign_add(ops.sum(ops.cast(hits(y_true, y_pred), self.dtype)))


class RootOfBatches(Mean):
    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        super().update_state(tf.sqrt(tf.reduce_mean(error(y_true, y_pred))))


class OfBoth(keras.metrics.Metric):
    """Scalars of both kinds, which cannot be told apart."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.means, self.sums = Mean(), Sum()

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        self.means.update_state(tf.reduce_mean(error(y_true, y_pred)))
        self.sums.update_state(tf.reduce_sum(error(y_true, y_pred)))

    def result(self) -> Any:
        return self.means.result() + self.sums.result()


class Never(State):
    """Probabilities above one: on no made-up value is there anything to see."""

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        self.state.assign_add(tf.reduce_sum(tf.cast(y_pred > 1e6, self.dtype)))


class MostHits(State):
    """From zero one update shows the number of hits, which is a sum."""

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        self.state.assign(ops.maximum(self.state, ops.sum(ops.cast(hits(y_true, y_pred), self.dtype))))


class HitsBesideMost(Hits):
    """Two states, of which one is a sum and one is none."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.most = self.add_variable((), "zeros", name="most")

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        super().update_state(y_true, y_pred)
        self.most.assign(ops.maximum(self.most, ops.cast(ops.max(y_pred), self.dtype)))


class LastBesideNothing(State):
    """Two states: one is no sum, and the other stays zero, which is one."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.nothing = self.add_variable((), "zeros", name="nothing")

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        self.state.assign(ops.cast(ops.sum(y_pred), self.dtype))


class HitsBesideOne(Hits):
    """Two states, of which one begins with what is no zero, and adds up from there."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.count = self.add_variable((), "zeros", name="count")
        self.reset_state()

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        super().update_state(y_true, y_pred)
        self.count.assign_add(ops.cast(ops.shape(y_pred)[0], self.dtype))

    def reset_state(self) -> None:
        super().reset_state()
        self.count.assign(1.0)

    def result(self) -> Any:
        return self.state / self.count


class LastBatch(State):
    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        self.state.assign(ops.cast(ops.sum(y_pred), self.dtype))


class MeanOfBatches(State):
    """Counts the batches by itself."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.batches = self.add_variable((), "zeros", name="batches")

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        self.state.assign_add(ops.cast(ops.mean(error(y_true, y_pred)), self.dtype))
        self.batches.assign_add(1.0)

    def result(self) -> Any:
        return self.state / self.batches


class Least(State):
    """Begins with what is no zero."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.reset_state()

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        self.state.assign(ops.minimum(self.state, ops.cast(ops.min(y_pred), self.dtype)))

    def reset_state(self) -> None:
        self.state.assign(2.0)


class NothingOfNothing(State):
    """A sum over samples, but for a batch without one: there it is no number."""

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        samples = ops.cast(ops.shape(y_pred)[0], self.dtype)
        self.state.assign_add(samples * ops.cast(ops.mean(y_pred), self.dtype))


class HitsBesideNothingOfNothing(Hits):
    """Two states, of which one is no number after a batch without a sample."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.total = self.add_variable((), "zeros", name="total")

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        super().update_state(y_true, y_pred)
        samples = ops.cast(ops.shape(y_pred)[0], self.dtype)
        self.total.assign_add(samples * ops.cast(ops.mean(y_pred), self.dtype))


class CoupledByWeights(State):
    """A sum over samples, until there are weights, of which it takes the largest."""

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        total = ops.cast(ops.sum(y_pred), self.dtype)
        self.state.assign_add(total if sample_weight is None else total * ops.cast(ops.max(sample_weight), self.dtype))


class AcrossRows(State):
    """The one of Keras's guide: labels of shape (samples,) meet predictions of shape (samples, 1)."""

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        classes = ops.reshape(ops.argmax(y_pred, axis=1), (-1, 1))
        same = ops.cast(ops.cast(y_true, "int32") == ops.cast(classes, "int32"), self.dtype)
        self.state.assign_add(ops.sum(same))


class HitsOfClasses(keras.metrics.Metric):
    """A vector, one number a class; nobody predicts the last one, which stays zero."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.state = self.add_variable((4,), "zeros", name="state")

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        hit = ops.cast(ops.one_hot(ops.argmax(y_pred, axis=-1), 4), self.dtype)
        self.state.assign_add(ops.sum(hit, axis=0))

    def result(self) -> Any:
        return ops.max(self.state)


def largest(y_true: Any, y_pred: Any) -> Any:
    return ops.max(ops.abs(y_true - y_pred))


def median(y_true: Any, y_pred: Any) -> Any:
    return ops.median(y_pred)


def total(y_true: Any, y_pred: Any) -> Any:
    """Keras takes the mean of the batches' totals."""
    return ops.sum(ops.abs(y_true - y_pred))


def _mean_of(y_true: Any, y_pred: Any, valid: Any) -> Any:
    valid = ops.cast(valid, y_pred.dtype)
    errors = ops.where(valid > 0, ops.abs(ops.cast(y_true, y_pred.dtype) - y_pred), 0.0)
    return ops.sum(errors) / ops.maximum(ops.sum(valid), 1.0)


def ignoring_negative_labels(y_true: Any, y_pred: Any) -> Any:
    return _mean_of(y_true, y_pred, y_true != -100)


def ignoring_void_labels(y_true: Any, y_pred: Any) -> Any:
    return _mean_of(y_true, y_pred, y_true != 255)


def ignoring_missing_labels(y_true: Any, y_pred: Any) -> Any:
    return _mean_of(y_true, y_pred, ops.logical_not(ops.isnan(y_true)))


def of_function(function: Callable[..., Any]) -> Callable[..., keras.metrics.Metric]:
    return functools.partial(keras.metrics.MeanMetricWrapper, function)


ADDED_UP = {
    PeakRatio: Merge.SUMS,
    PeakRatioOfBatches: Merge.MEANS,
    SumOfMeans: Merge.MEANS,
    SumOfSums: Merge.SUMS,
    Weighted: Merge.SUMS,
    MadeOfOthers: Merge.SUMS,
    Wrapped: Merge.MEANS,
    WrappedVector: Merge.MEANS,
    Hits: Merge.SUMS,
    HitsOfClasses: Merge.SUMS,
}
GATHERED = [RootOfBatches, OfBoth, Never, MostHits, LastBatch, MeanOfBatches, Least, NothingOfNothing]
GATHERED += [CoupledByWeights, HitsBesideMost, LastBesideNothing, HitsBesideOne, HitsBesideNothingOfNothing]
FUNCTIONS = [largest, median, total]
IGNORING = [ignoring_negative_labels, ignoring_void_labels, ignoring_missing_labels]
