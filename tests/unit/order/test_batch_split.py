from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfdist.order.batch_split import bounds


@pytest.mark.parametrize(
    ("n", "parts", "expected"),
    [
        (0, 3, [(0, 0), (0, 0), (0, 0)]),
        (1, 3, [(0, 1), (1, 1), (1, 1)]),  # fewer samples than replicas: replica 0 has the one
        (2, 3, [(0, 1), (1, 2), (2, 2)]),
        (32, 1, [(0, 32)]),
        (32, 2, [(0, 16), (16, 32)]),
        (32, 3, [(0, 11), (11, 22), (22, 32)]),
        (6, 4, [(0, 2), (2, 3), (3, 5), (5, 6)]),  # the odd ones out are spread, so that workers' shares are even too
    ],
)
def test_bounds(n: int, parts: int, expected: list[tuple[int, int]]) -> None:
    assert [bounds(n, parts, k) for k in range(parts)] == expected


@given(n=st.integers(0, 10_000), parts=st.integers(1, 100))
def test_pieces_cover_the_batch_in_order_and_are_even(n: int, parts: int) -> None:
    pieces = [bounds(n, parts, k) for k in range(parts)]
    sizes = [stop - start for start, stop in pieces]
    assert [i for start, stop in pieces for i in range(start, stop)] == list(range(n))
    assert max(sizes) - min(sizes) <= 1
    assert sizes[0] == max(sizes)


@given(n=st.integers(0, 10_000), workers=st.integers(1, 20), devices=st.integers(1, 8))
def test_a_worker_reads_the_same_samples_whatever_its_number_of_devices(n: int, workers: int, devices: int) -> None:
    for worker in range(workers):
        first, _ = bounds(n, workers * devices, worker * devices)
        _, last = bounds(n, workers * devices, worker * devices + devices - 1)
        assert (first, last) == bounds(n, workers, worker)


@pytest.mark.parametrize(("n", "parts", "k"), [(-1, 1, 0), (1, 0, 0), (1, 2, 2), (1, 2, -1)])
def test_arguments_out_of_range_are_refused(n: int, parts: int, k: int) -> None:
    with pytest.raises(ValueError, match=f"n={n}, parts={parts}, k={k}"):
        bounds(n, parts, k)
