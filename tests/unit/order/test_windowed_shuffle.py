from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tfdist.order.sequential_order import permuted_in_windows


def window(size: int, number: int, name: str = "n") -> list[int]:
    return permuted_in_windows(np.arange(size), np.full(size, number), np.full(size, size), name).tolist()


@given(sizes=st.lists(st.integers(1, 300), min_size=1, max_size=8))
def test_every_window_is_permuted_by_itself(sizes: list[int]) -> None:
    positions = np.concatenate([np.arange(size) for size in sizes])
    windows = np.repeat(np.arange(len(sizes)), sizes)
    together = permuted_in_windows(positions, windows, np.repeat(sizes, sizes), "n")
    for number, size in enumerate(sizes):
        own = together[windows == number].tolist()
        assert sorted(own) == list(range(size))
        assert own == window(size, number)


def test_the_numbers_are_frozen() -> None:
    """As those of `test_epoch_order`."""
    positions, windows, sizes = np.array([0, 1, 2, 0, 7]), np.array([0, 0, 0, 5, 5]), np.array([3, 3, 3, 8, 8])
    assert permuted_in_windows(positions, windows, sizes, "x").tolist() == [1, 2, 0, 6, 0]


def test_another_window_or_name_has_another_order() -> None:
    orders = [window(40, 0), window(40, 1), window(40, 0, "m"), list(range(40))]
    assert len({tuple(order) for order in orders}) == 4
    assert window(40, 0) == window(40, 0)


def test_each_place_is_as_likely_as_any_other() -> None:
    count = 4000
    landed = permuted_in_windows(np.zeros(count, np.int64), np.arange(count), np.full(count, 8), "n")
    seen = np.bincount(landed, minlength=8)
    assert np.abs(seen - count / 8).max() < 5 * (count / 8) ** 0.5
