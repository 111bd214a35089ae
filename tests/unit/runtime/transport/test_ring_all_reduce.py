from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tfdist.runtime.transport import ring_all_reduce
from tfdist.runtime.transport.ring_all_reduce import Ring, sum_now


@pytest.mark.parametrize(
    ("sizes", "collectives"),
    [
        ([], []),
        ([1], [1]),
        ([3, 3, 3], [9]),
        ([6, 3, 3], [9, 3]),
        ([10, 1], [10, 1]),
        ([25, 1, 2], [25, 3]),  # larger than the limit: alone
        ([1, 25, 2], [1, 25, 2]),
        ([0, 10], [10]),
    ],
)
def test_neighbours_share_a_collective_up_to_the_limit(
    sizes: list[int], collectives: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    summed: list[int] = []

    def doubling(input: tf.Tensor, **options: Any) -> tf.Tensor:
        summed.append(input.shape[0])
        return 2 * input

    monkeypatch.setattr(tf.raw_ops, "CollectiveReduceV2", doubling)
    monkeypatch.setattr(ring_all_reduce, "BUCKET_BYTES", 10 * tf.float32.size)
    values = [np.full((size, 1), place, "f4") for place, size in enumerate(sizes)]
    totals = tf.function(lambda: Ring(2).sum([tf.constant(value) for value in values]))()
    assert summed == collectives
    for total, value in zip(totals, values, strict=True):
        np.testing.assert_array_equal(total, 2 * value)


def test_a_key_for_each_size_outside_of_functions(monkeypatch: pytest.MonkeyPatch) -> None:
    """TensorFlow keeps 1.7 kB for every key, for good, and refuses a key with another shape than before."""
    keys: list[int] = []

    def keeping_key(input: tf.Tensor, instance_key: int, **options: Any) -> tf.Tensor:
        keys.append(instance_key)
        return input

    monkeypatch.setattr(tf.raw_ops, "CollectiveReduceV2", keeping_key)
    for size in (4, 8, 4, 8, 4):
        rows = np.arange(2 * size, dtype=np.int32).reshape(2, size)
        np.testing.assert_array_equal(sum_now(rows, workers=2), rows)
    assert len(set(keys)) == 2
    assert keys[0] == keys[2] == keys[4] < 2**31
    assert keys[1] == keys[3] < 2**31
