"""Metrics of vectors that are not one value a sample."""

from __future__ import annotations

from typing import Any

import keras
import pytest

import tfdist
from tests.exactness.comparison import assert_same
from tests.exactness.table import numbers
from tests.helpers.marks import slow
from tests.helpers.mirrored import mirrored
from tfdist.errors import UnsupportedError
from tfdist.keras_repairs.forward import metrics

pytestmark = pytest.mark.usefixtures("repaired", "float64")


def measured(metric: Any) -> dict[str, Any]:
    keras.utils.set_random_seed(11)
    x, _ = numbers(65)
    model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(4)])
    model.compile("sgd", "mse", metrics=[metric])
    return model.fit(x, x[:, :4], batch_size=32, verbose=0).history


class ClassMeans(keras.layers.Layer):
    """Measures a mean for each of three classes, and one for each sample."""

    def __init__(self) -> None:
        super().__init__()
        self.of_classes, self.of_samples = keras.metrics.Mean(name="classes"), keras.metrics.Mean(name="samples")

    def call(self, x: Any) -> Any:
        self.of_classes.update_state(keras.ops.mean(x, axis=0), sample_weight=[0.5, 1.0, 2.0])
        self.of_classes.update_state(keras.ops.max(keras.ops.abs(x)) * 0 + 1, sample_weight=keras.ops.ones(()))
        self.of_samples.update_state(keras.ops.mean(x, axis=1))
        return x


@pytest.mark.parametrize("replicas", [2, slow(3)])
def test_means_of_classes_in_a_layer_that_runs_eagerly(replicas: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """In batches of nine, of which each of three replicas has as many samples as there are classes."""

    def measured_by_layer() -> dict[str, Any]:
        keras.utils.set_random_seed(11)
        model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(3), ClassMeans()])
        model.compile("sgd", "mse", run_eagerly=True)
        x, _ = numbers(65)
        return model.fit(x, x[:, :3], batch_size=9, verbose=0).history

    expected = measured_by_layer()
    with mirrored(replicas).scope():
        assert_same(expected, measured_by_layer())
        monkeypatch.setattr(metrics, "known_update", lambda metric: None)
        with pytest.raises(AssertionError):
            assert_same(expected, measured_by_layer())


def test_a_metric_along_the_samples_is_refused() -> None:
    with mirrored(2).scope(), pytest.raises(UnsupportedError, match=r"takes 4 values.*tfdist.gathered"):
        measured(keras.metrics.CosineSimilarity(axis=0))


def test_gathered_it_is_exact() -> None:
    expected = measured(keras.metrics.CosineSimilarity(axis=0))
    with mirrored(2).scope():
        assert_same(expected, measured(tfdist.gathered(keras.metrics.CosineSimilarity(axis=0))))
