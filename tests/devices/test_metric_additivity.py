"""The user's metrics that keep scalars: sums and means are told apart and exact, others are refused."""

from __future__ import annotations

import functools
import logging
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.devices.mirrored import mirrored
from tests.exactness.comparison import assert_same
from tests.exactness.table import classifier, numbers
from tests.marks import slow
from tfdist.errors import UnsupportedError
from tfdist.keras_repairs.forward.metric_additivity import ScalarKind, try_out

pytestmark = pytest.mark.usefixtures("repaired", "float64")

SAMPLES, BATCH = 65, 32
SPEC = tf.TensorSpec((None, 3))
Mean, Sum = keras.metrics.Mean, keras.metrics.Sum


def error(y_true: Any, y_pred: Any) -> Any:
    """One value a sample."""
    return tf.reduce_mean(tf.square(tf.cast(y_true, y_pred.dtype) - y_pred), axis=-1)


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


class Never(Sum):
    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        super().update_state(tf.reduce_mean(tf.cast(y_pred > 1.0, y_pred.dtype)))


EXACT = {
    PeakRatio: ScalarKind.SUMS,
    PeakRatioOfBatches: ScalarKind.MEANS,
    SumOfMeans: ScalarKind.MEANS,
    SumOfSums: ScalarKind.SUMS,
    Weighted: ScalarKind.SUMS,
    MadeOfOthers: ScalarKind.SUMS,
    Wrapped: ScalarKind.MEANS,
}


def measured() -> dict[str, Any]:
    """All metrics over a training, an evaluation and, where they have been tried out already, another training."""
    keras.utils.set_random_seed(11)
    x, y = numbers(SAMPLES)
    y = keras.utils.to_categorical(y, 3)
    model = classifier()
    model.compile("sgd", "categorical_crossentropy", metrics=[metric(name=metric.__name__) for metric in EXACT])
    fit = functools.partial(model.fit, x, y, batch_size=BATCH, shuffle=False, verbose=0)
    first = fit().history
    evaluated = model.evaluate(x, y, batch_size=BATCH, verbose=0, return_dict=True)
    return {"first": first, "evaluated": evaluated, "second": fit().history}


@pytest.mark.parametrize("replicas", [slow(2), 3])
def test_sums_and_means_are_exact(replicas: int) -> None:
    expected = measured()
    assert {metric.__name__ for metric in EXACT} <= expected["first"].keys()
    with mirrored(replicas).scope():
        assert_same(expected, measured())


@pytest.mark.parametrize(("metric", "scalars"), EXACT.items())
def test_what_scalars_are_taken_for(metric: type[keras.metrics.Metric], scalars: ScalarKind) -> None:
    assert try_out(metric(name="measured"), SPEC, SPEC) is scalars


@pytest.mark.parametrize("metric", [RootOfBatches, OfBoth])
def test_what_adds_up_in_neither_way_is_refused(metric: type[keras.metrics.Metric]) -> None:
    with pytest.raises(UnsupportedError, match=metric.__name__):
        try_out(metric(), SPEC, SPEC)


def test_a_state_that_stays_zero_shows_nothing(caplog: pytest.LogCaptureFixture) -> None:
    logger = logging.getLogger("tfdist")
    logger.addHandler(caplog.handler)
    try:
        assert try_out(Never(), SPEC, SPEC) is None
    finally:
        logger.removeHandler(caplog.handler)
    assert "its state stays zero" in caplog.text
