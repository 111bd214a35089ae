"""Metrics of vectors that are not one value a sample."""

from __future__ import annotations

from typing import Any

import keras
import pytest

import tfdist
from tests.devices.mirrored import mirrored
from tests.exactness.comparison import assert_same
from tests.exactness.table import numbers
from tfdist.errors import UnsupportedError

pytestmark = pytest.mark.usefixtures("repaired", "float64")


def measured(metric: Any) -> dict[str, Any]:
    keras.utils.set_random_seed(11)
    x, _ = numbers(65)
    model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(4)])
    model.compile("sgd", "mse", metrics=[metric])
    return model.fit(x, x[:, :4], batch_size=32, verbose=0).history


def test_a_metric_along_the_samples_is_refused() -> None:
    with mirrored(2).scope(), pytest.raises(UnsupportedError, match=r"takes 4 values.*tfdist.gathered"):
        measured(keras.metrics.CosineSimilarity(axis=0))


def test_gathered_it_is_exact() -> None:
    expected = measured(keras.metrics.CosineSimilarity(axis=0))
    with mirrored(2).scope():
        assert_same(expected, measured(tfdist.gathered(keras.metrics.CosineSimilarity(axis=0))))
