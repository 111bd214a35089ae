from __future__ import annotations

from fractions import Fraction

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tfdist.order.interleaved_parts import taken_before

shares = st.lists(st.integers(0, 60), min_size=1, max_size=9).filter(any)


@given(sizes=shares)
def test_samples_are_taken_in_the_order_of_where_they_stand(sizes: list[int]) -> None:
    stands = sorted(
        (Fraction(2 * number + 1, 2 * size), part) for part, size in enumerate(sizes) for number in range(size)
    )
    expected = np.zeros((len(stands) + 1, len(sizes)), np.int64)
    for place, (_, part) in enumerate(stands):
        expected[place + 1] = expected[place]
        expected[place + 1, part] += 1
    taken = taken_before(np.array(sizes), np.arange(len(stands) + 1))
    np.testing.assert_array_equal(taken, expected)


@given(
    sizes=st.lists(st.integers(1, 10**12), min_size=1, max_size=70),
    at=st.lists(st.floats(0, 1), min_size=2, max_size=5),
)
def test_of_any_size_each_row_adds_up_and_none_shrinks(sizes: list[int], at: list[float]) -> None:
    total = sum(sizes)
    places = np.array(sorted(int(total * part) for part in at))
    taken = taken_before(np.array(sizes), places)
    assert taken.sum(axis=1).tolist() == places.tolist()
    assert (np.diff(taken, axis=0) >= 0).all()
    assert (taken <= np.array(sizes)).all() and (taken >= 0).all()


def test_parts_come_to_their_end_together() -> None:
    taken = taken_before(np.array([1000, 10, 0, 300]), np.array([655, 1310]))
    assert taken.tolist() == [[500, 5, 0, 150], [1000, 10, 0, 300]]
