from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tfdist.runtime.transport.ring_all_reduce import _groups, sum_now


@pytest.mark.parametrize(
    ("sizes", "groups"),
    [
        ([], []),
        ([1], [[0]]),
        ([3, 3, 3], [[0, 1, 2]]),
        ([6, 3, 3], [[0, 1], [2]]),
        ([10, 1], [[0], [1]]),
        ([25, 1, 2], [[0], [1, 2]]),  # larger than a piece: alone
        ([1, 25, 2], [[0], [1], [2]]),
        ([0, 10], [[0, 1]]),
    ],
)
def test_neighbours_are_joined_up_to_the_limit(sizes: list[int], groups: list[list[int]]) -> None:
    assert _groups(sizes, limit=10) == groups


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
