"""Tests of how tensors are cut."""

from __future__ import annotations

import pytest

from tfdist.errors import UsageError
from tfdist.sharding import cut
from tfdist.sharding.cut import Cut


@pytest.mark.parametrize(
    ("shape", "workers", "bounds", "shards"),
    [
        ((10,), 2, (0, 5, 10), [(5,), (5,)]),
        ((10,), 3, (0, 3, 6, 10), [(3,), (3,), (4,)]),
        ((2,), 4, (0, 0, 1, 1, 2), [(0,), (1,), (0,), (1,)]),
        ((), 2, (0, 0, 1), [(0,), (1,)]),
        ((0,), 2, (0, 0, 0), [(0,), (0,)]),
        # Few rows: between any two elements.
        ((3, 5), 2, (0, 7, 15), [(7,), (8,)]),
        ((63, 3), 2, (0, 94, 189), [(94,), (95,)]),
        # Many rows: between two of them.
        ((64, 3), 2, (0, 96, 192), [(32, 3), (32, 3)]),
        ((97, 2, 2), 3, (0, 128, 256, 388), [(32, 2, 2), (32, 2, 2), (33, 2, 2)]),
        ((100, 0), 2, (0, 0, 0), [(100, 0), (100, 0)]),
        ((5, 3), 1, (0, 15), [(15,)]),
    ],
)
def test_even_cuts(
    shape: tuple[int, ...], workers: int, bounds: tuple[int, ...], shards: list[tuple[int, ...]]
) -> None:
    found = cut.evenly(shape, workers)
    assert (found.shape, found.bounds, found.workers) == (shape, bounds, workers)
    assert [found.shard_shape(worker) for worker in range(workers)] == shards
    assert [found.span(worker) for worker in range(workers)] == list(zip(bounds, bounds[1:], strict=False))
    assert found.largest_shard == max(stop - start for start, stop in zip(bounds, bounds[1:], strict=False))


def test_no_part_is_much_larger_than_another() -> None:
    for rows in range(1, 300):
        found = cut.evenly((rows, 7), 3)
        assert found.largest_shard <= 1.04 * (found.size / 3) + 1


@pytest.mark.parametrize(
    ("shape", "owner", "workers", "bounds", "shards"),
    [
        ((3, 4), 0, 3, (0, 12, 12, 12), [(3, 4), (0, 4), (0, 4)]),
        ((3, 4), 1, 3, (0, 0, 12, 12), [(0, 4), (3, 4), (0, 4)]),
        ((5,), 2, 3, (0, 0, 0, 5), [(0,), (0,), (5,)]),
        ((), 1, 2, (0, 0, 1), [(0,), ()]),
    ],
)
def test_whole_tensors_have_one_owner(
    shape: tuple[int, ...], owner: int, workers: int, bounds: tuple[int, ...], shards: list[tuple[int, ...]]
) -> None:
    found = cut.uncut(shape, owner, workers)
    assert found.bounds == bounds
    assert [found.shard_shape(worker) for worker in range(workers)] == shards


@pytest.mark.parametrize(
    ("sizes", "workers", "owners"),
    [
        ([], 2, ()),
        ([5], 2, (0,)),
        ([1, 5, 1], 2, (1, 0, 1)),
        ([4, 3, 3, 2, 2], 2, (0, 1, 1, 0, 0)),
        ([0, 0], 2, (0, 0)),
        ([3, 3, 3], 4, (0, 1, 2)),
    ],
)
def test_owners_have_about_as_much(sizes: list[int], workers: int, owners: tuple[int, ...]) -> None:
    assert cut.owners(sizes, workers) == owners


@pytest.mark.parametrize(
    ("shape", "bounds", "keeps_rank", "text"),
    [
        ((4,), (0, 2), False, "ends at 4"),
        ((4,), (1, 4), False, "begins at element 0"),
        ((4,), (4,), False, "begins at element 0"),
        ((4,), (0, 3, 2, 4), False, "follow one another"),
        ((4, 3), (0, 7, 12), True, "multiples of 3"),
    ],
)
def test_a_cut_is_of_all_elements(shape: tuple[int, ...], bounds: tuple[int, ...], keeps_rank: bool, text: str) -> None:
    with pytest.raises(UsageError, match=text):
        Cut(shape, bounds, keeps_rank)


def test_shards_of_some_workers() -> None:
    cut = Cut((6,), (0, 2, 6), keeps_rank=False)
    assert cut.among(4).bounds == (0, 2, 6, 6, 6)
    assert cut.among(4, [1, 3]).bounds == (0, 0, 2, 2, 6)
