"""Sums over what is cut, of what each worker has summed of its slice."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tfdist.keras_repairs.tensor_parallel.vocabulary_rules import _log_sum, _total_of

INF = float("inf")


@pytest.mark.parametrize(
    "scores",
    [[0.5, -1.0, 2.0, 3.0], [-INF, -INF, 2.0, 3.0], [INF, -1.0, 2.0, 3.0], [-INF] * 4, [float("nan"), 0.0, 1.0, 2.0]],
    ids=["finite", "a slice that is masked", "infinite", "all masked", "not a number"],
)
def test_softmax_of_two_slices_is_that_of_one_device(scores: list[float]) -> None:
    given = tf.constant(scores, tf.float64)
    with tf.GradientTape() as tape:
        tape.watch(given)
        slices = tf.split(given, 2)
        total = _total_of(tf.stack([_log_sum(own) for own in slices]), [-1])
        found = tf.exp(given - total)
    np.testing.assert_allclose(found, tf.nn.softmax(given), 1e-12)
    gradient = tape.gradient(found, given)
    assert np.isfinite(gradient).all() == np.isfinite(found).all()
