"""Losses of predictions whose mask is of numbers rather than of bools, which versions of Keras count differently."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
from keras import layers, ops

from tests.exactness.table import numbers
from tests.helpers.mirrored import mirrored

pytestmark = pytest.mark.usefixtures("repaired", "float64")


class MaskedByNumbers(layers.Layer):
    """Its mask is the first feature of a sample, or 0 where that is negative."""

    def call(self, inputs: Any) -> Any:
        return inputs

    def compute_mask(self, inputs: Any, previous_mask: Any) -> Any:
        return ops.relu(inputs[:, 0])


def loss(reduction: str) -> float:
    """That of 9 samples in batches of 4."""
    x, _ = numbers(9)
    model = keras.Sequential([keras.Input((6,)), MaskedByNumbers()])
    model.compile(loss=keras.losses.MeanSquaredError(reduction=reduction))
    found: float = model.evaluate(x, x**2, batch_size=4, verbose=0)
    return found


@pytest.mark.parametrize("reduction", ["sum_over_batch_size", "mean_with_sample_weight", "sum"])
def test_the_loss_of_one_replica(reduction: str) -> None:
    expected = loss(reduction)
    with mirrored(3).scope():
        assert np.isclose(loss(reduction), expected, rtol=1e-12, atol=0)
