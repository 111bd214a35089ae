"""Fingerprints of a step's data and gradients, in any parts and order, on any number of replicas."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.helpers.marks import slow
from tests.helpers.mirrored import mirrored
from tfdist.training.probes.step_fingerprints import StepFingerprints, fingerprint

X = np.random.default_rng(1).normal(size=(7, 4)).astype(np.float32)


def of(batch: Any) -> float:
    return float(fingerprint(batch))


def test_a_fingerprint_adds_up_whatever_the_parts_and_the_order() -> None:
    y = np.arange(7)
    whole = of((tf.constant(X), tf.constant(y)))
    parts = [slice(0, 3), slice(3, 7), slice(7, 7)]
    assert sum(of((tf.constant(X[part]), tf.constant(y[part]))) for part in parts) == pytest.approx(whole, rel=1e-12)
    order = np.random.default_rng(2).permutation(7)
    assert of((tf.constant(X[order]), tf.constant(y[order]))) == pytest.approx(whole, rel=1e-12)


@pytest.mark.parametrize(
    "other",
    [X[:, ::-1], -X, X * np.float32(1 + 1e-6), np.roll(X, 1, axis=1)],
    ids=["mirrored", "negative", "nearly the same", "shifted"],
)
def test_another_batch_has_another_fingerprint(other: np.ndarray) -> None:
    assert of(tf.constant(other.copy())) != pytest.approx(of(tf.constant(X)), rel=1e-9)


def test_a_missing_value_leaves_the_others_to_tell() -> None:
    """NaN, as data have it that a model masks, and infinities."""
    batches = [
        [[math.nan, 1.0], [2.0, 3.0]],
        [[math.nan, 1.0], [2.0, 4.0]],
        [[2.0, math.nan], [2.0, 3.0]],
        [[math.inf, 1.0], [2.0, 3.0]],
        [[-math.inf, 1.0], [2.0, 3.0]],
    ]
    found = [of(tf.constant(batch)) for batch in batches]
    assert all(math.isfinite(number) for number in found) and len(set(found)) == len(batches)
    assert of(tf.constant(batches[0][::-1])) == pytest.approx(found[0], rel=1e-12)


def test_classes_of_one_hot_labels_tell() -> None:
    assert of(tf.one_hot([0, 1, 2], 4)) != pytest.approx(of(tf.one_hot([0, 1, 3], 4)), rel=1e-9)


@pytest.mark.parametrize(
    ("batch", "other"),
    [
        (tf.constant(["a", "b"]), tf.constant(["a", "c"])),
        (tf.ragged.constant([[1, 2], [3]]), tf.ragged.constant([[1, 2], [4]])),
        (tf.sparse.from_dense([[0.0, 2.0]]), tf.sparse.from_dense([[0.0, 3.0]])),
        ({"a": tf.constant([True]), "b": None}, {"a": tf.constant([False]), "b": None}),
    ],
    ids=["strings", "ragged", "sparse", "dict of booleans"],
)
def test_kinds_of_data(batch: Any, other: Any) -> None:
    assert of(batch) == of(batch)
    assert of(batch) != of(other)


def test_what_has_no_rows_is_left_out() -> None:
    assert of((tf.constant(3.0), None)) == 0.0


@pytest.mark.parametrize("replicas", [slow(2), 3])
def test_gradients_count_once_and_data_of_all_replicas(replicas: int) -> None:
    strategy = mirrored(replicas)
    observer = StepFingerprints(strategy)
    slices = tf.IndexedSlices(tf.constant([[1.0], [2.0]]), tf.constant([1, 1]), tf.constant([3, 1]))

    def step() -> None:
        observer.on_gradients([tf.constant([4.0]), None, slices])
        observer.on_batch(tf.constant([[1.0]]))

    run = tf.function(lambda: strategy.run(step))
    run()
    norm, data = observer.read()
    assert norm == pytest.approx(5.0)  # 4 and, at one index, 1 + 2
    assert data == pytest.approx(replicas * of(tf.constant([[1.0]])))
    observer.reset()
    assert observer.read() == (0.0, 0.0)
