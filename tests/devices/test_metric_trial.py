"""What a trial says of metrics: do they add up over the replicas, and how, or have they to be gathered?"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from tests.devices.own_metrics import (
    ADDED_UP,
    FUNCTIONS,
    GATHERED,
    IGNORING,
    AcrossRows,
    Hits,
    MostHits,
    State,
    of_function,
)
from tfdist.keras_repairs.forward.metric_additivity import Merge, try_out

pytestmark = pytest.mark.usefixtures("repaired", "float64")


def verdict(metric: keras.metrics.Metric, *shapes: tuple[int | None, ...], **more: Any) -> Any:
    """What the trial says of a metric that is given tensors of these shapes."""
    seen = []

    @tf.function(input_signature=[tf.TensorSpec(shape, dtype) for shape, dtype in shapes])
    def step(*tensors: tf.Tensor) -> None:
        seen.append(try_out(metric, tensors, more))

    step.get_concrete_function()
    return seen[0]


CLASSES = (((None, 3), tf.float32), ((None, 3), tf.float32))
SPARSE = (((None,), tf.int64), ((None, 10), tf.float32))


@pytest.mark.parametrize(("metric", "merge"), ADDED_UP.items())
def test_what_scalars_are_taken_for(metric: type[keras.metrics.Metric], merge: Merge) -> None:
    assert verdict(metric(name="measured"), *CLASSES).merge is merge


@pytest.mark.parametrize("make", [*GATHERED, *map(of_function, [*FUNCTIONS, *IGNORING])])
def test_what_adds_up_in_neither_way_is_gathered(make: Callable[..., keras.metrics.Metric]) -> None:
    assert verdict(make(), *CLASSES).merge is Merge.GATHERED


@pytest.mark.parametrize(("metric", "merge"), [(Hits, Merge.SUMS), (MostHits, Merge.GATHERED)])
@pytest.mark.parametrize("labels", [(None,), (None, 1)])
def test_ten_classes_are_hit(metric: type[State], merge: Merge, labels: tuple[None, ...]) -> None:
    if labels == (None, 1):
        flat = lambda y_true, y_pred: ops.reshape(y_true, (-1,))  # noqa: E731
        kind = type(metric.__name__, (metric,), {"update_state": lambda self, y_true, y_pred, sample_weight=None: (
            metric.update_state(self, flat(y_true, y_pred), y_pred))})  # fmt: skip
    else:
        kind = metric
    assert verdict(kind(), (labels, tf.int64), SPARSE[1]).merge is merge


def test_rows_that_meet_are_gathered() -> None:
    assert verdict(AcrossRows(), *SPARSE).merge is Merge.GATHERED


def test_a_state_that_shows_nothing_is_not_taken_for_a_sum() -> None:
    class HitsAndOutliers(Hits):
        """Its second state stays zero on made-up values: whether it adds up is not known."""

        def __init__(self) -> None:
            super().__init__()
            self.largest = self.add_weight(initializer="zeros", name="largest")

        def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
            super().update_state(y_true, y_pred)
            top = ops.max(y_pred)
            self.largest.assign(ops.where(top > 1e30, ops.maximum(self.largest, top), self.largest))

    found = verdict(HitsAndOutliers(), *CLASSES)
    assert found.merge is Merge.GATHERED and "showed nothing" in found.reason


@pytest.mark.parametrize(
    "metric",
    [keras.metrics.MeanSquaredError, keras.metrics.CategoricalAccuracy, keras.metrics.AUC, keras.metrics.R2Score],
)
def test_sums_over_samples_are_recognised(metric: type[keras.metrics.Metric]) -> None:
    tried = metric()
    values = np.zeros((4, 3), "float32")
    tried.update_state(values, values)
    tried.reset_state()
    assert verdict(tried, *CLASSES).merge is not Merge.GATHERED
    assert all(np.all(np.asarray(variable) == 0) for variable in tried.variables), "the trial must leave no trace"


def test_a_trial_leaves_no_trace() -> None:
    class Counting(Hits):
        calls = 0

        def __init__(self) -> None:
            super().__init__()
            self.calls = 7

        def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
            self.calls += 1
            super().update_state(y_true, y_pred)

    metric = Counting()
    assert verdict(metric, *CLASSES).merge is Merge.SUMS
    assert metric.calls == 7
    assert float(metric.state) == 0.0
