from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tfdist.runtime.ring import _cut, _groups


@pytest.mark.parametrize(
    ("sizes", "groups"),
    [
        ([], []),
        ([1], [[0]]),
        ([3, 3, 3], [[0, 1, 2]]),
        ([6, 3, 3], [[0, 1], [2]]),
        ([10, 1], [[0], [1]]),
        ([25, 1, 2], [[0], [1, 2]]),  # larger than a piece: alone, to be cut
        ([1, 25, 2], [[0], [1], [2]]),
        ([0, 10], [[0, 1]]),
    ],
)
def test_neighbours_are_joined_up_to_the_limit(sizes: list[int], groups: list[list[int]]) -> None:
    assert _groups(sizes, limit=10) == groups


@pytest.mark.parametrize(("size", "pieces"), [(1, [1]), (10, [10]), (11, [10, 1]), (25, [10, 10, 5])])
def test_large_ones_are_cut(size: int, pieces: list[int]) -> None:
    values = tf.range(size)
    cut = _cut(values, limit=10)
    assert [len(piece) for piece in cut] == pieces
    assert np.array_equal(tf.concat(cut, 0), values)
