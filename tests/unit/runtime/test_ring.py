from __future__ import annotations

import pytest

from tfdist.runtime.ring import _groups


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
