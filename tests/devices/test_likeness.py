"""Metrics that are alike are tried out once, and those that compute otherwise are not taken for alike."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from tests.helpers.mirrored import mirrored
from tfdist.keras_repairs.coupling.trials.likeness import likeness_of
from tfdist.keras_repairs.forward import metrics as repaired_metrics

pytestmark = pytest.mark.usefixtures("repaired")

LIMIT = 0.5


class Above(keras.metrics.Metric):
    """How many predictions are above a threshold, or the largest of them."""

    def __init__(self, threshold: Any = 0.5, largest: bool = False, **options: Any) -> None:
        super().__init__(**options)
        self.threshold = threshold
        self.largest = largest
        self.state = self.add_variable((), "zeros")

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        if self.largest:
            self.state.assign(ops.maximum(self.state, ops.max(ops.abs(y_pred))))
        else:
            self.state.assign_add(ops.sum(ops.cast(y_pred > self.threshold, "float32")))

    def result(self) -> Any:
        return self.state


class Part(keras.metrics.Metric):
    """Holds another metric."""

    def __init__(self, part: keras.metrics.Metric) -> None:
        super().__init__()
        self.part = part

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        self.part.update_state(y_true, y_pred)


def of_function(power: Any) -> keras.metrics.Metric:
    def difference(y_true: Any, y_pred: Any) -> Any:
        return ops.mean(ops.abs(y_true - y_pred) ** power, axis=-1)

    return keras.metrics.MeanMetricWrapper(difference, name=str(power))


def above_global(y_true: Any, y_pred: Any) -> Any:
    return ops.mean(ops.cast(y_pred > LIMIT, "float32"), axis=-1)


ALIKE: list[Callable[[], keras.metrics.Metric]] = [
    Above,
    lambda: Above([0.2, 0.3], name="other"),
    lambda: Above(np.arange(3.0)),
    lambda: of_function(2.0),
    lambda: Part(keras.metrics.TopKCategoricalAccuracy(3)),
    lambda: keras.metrics.MeanMetricWrapper(functools.partial(ops.mean, axis=-1)),
    lambda: keras.metrics.MeanMetricWrapper(above_global),
]


@pytest.mark.parametrize("make", ALIKE)
def test_two_that_are_made_in_one_way_are_alike(make: Callable[[], keras.metrics.Metric]) -> None:
    one, other = likeness_of(make()), likeness_of(make())
    assert one is not None
    assert one == other
    assert hash(one) == hash(other)


def test_those_that_compute_otherwise_are_not_alike() -> None:
    made = [
        *(make() for make in ALIKE),
        Above(0.25),
        Above(1),
        Above(True),
        Above(largest=True),
        Above([0.2, 0.4]),
        Above(np.arange(3.0) + 1),
        Above(dtype="float64"),
        of_function(3.0),
        Part(keras.metrics.TopKCategoricalAccuracy(2)),
        keras.metrics.MeanMetricWrapper(functools.partial(ops.mean, axis=0)),
        keras.metrics.MeanMetricWrapper(functools.partial(ops.max, axis=-1)),
    ]
    found = [likeness_of(metric) for metric in made]
    assert None not in found
    assert len(set(found)) == len(made)


def test_what_a_function_reads_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    before = likeness_of(keras.metrics.MeanMetricWrapper(above_global))
    monkeypatch.setitem(globals(), "LIMIT", 0.75)
    assert likeness_of(keras.metrics.MeanMetricWrapper(above_global)) != before


def test_what_cannot_be_compared_is_like_nothing() -> None:
    assert likeness_of(Above(threshold=object())) is None
    assert likeness_of(Above(threshold=tf.Variable(0.5))) is None
    assert likeness_of(of_function(keras.layers.Dense(1))) is None


@pytest.mark.slow
def test_metrics_that_are_compiled_again_are_not_tried_out_again(monkeypatch: pytest.MonkeyPatch) -> None:
    tried = []

    def try_out(metric: keras.metrics.Metric, *given: Any) -> Any:
        tried.append(metric)
        return original(metric, *given)

    original = repaired_metrics.try_out
    monkeypatch.setattr(repaired_metrics, "try_out", try_out)
    x = np.random.default_rng(3).normal(size=(5, 2)).astype("float32")
    expected = [evaluated(x, largest) for largest in (False, False, True, True)]
    assert tried == []
    with mirrored(2).scope():
        found = [evaluated(x, largest) for largest in (False, False, True, True)]
    assert len(tried) == 2
    assert found == pytest.approx(expected, rel=1e-5)


def evaluated(x: np.ndarray, largest: bool) -> float:
    """The metric of a model that is made anew: exact only where it is known how its parts merge."""
    keras.utils.set_random_seed(5)
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(2)])
    model.compile("sgd", "mse", metrics=[Above(largest=largest, name="above")])
    return float(model.evaluate(x, x, batch_size=4, verbose=0, return_dict=True)["above"])
