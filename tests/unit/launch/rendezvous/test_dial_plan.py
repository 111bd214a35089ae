from __future__ import annotations

import pytest

from tfdist.cluster import Cluster, Membership
from tfdist.launch.rendezvous.dial_plan import NEIGHBOURS, whom_to_dial


def plan(size: int, *local: int) -> tuple[int, ...]:
    return whom_to_dial(Membership(Cluster.parse(",".join(f"h{n}:20000" for n in range(size))), local))


@pytest.mark.parametrize(
    ("size", "local", "dialled"),
    [
        (2, (1,), (0,)),
        (9, (3,), (0, 1, 2, 4, 5, 6, 7, 8)),  # in a small job everybody
        (1000, (0,), tuple(range(1, 1000))),  # the chief's launcher in any
        (1000, (500,), (0, 496, 497, 498, 499, 501, 502, 503, 504)),
        (1000, (999,), (0, 1, 2, 3, 995, 996, 997, 998)),  # the list is a ring
        (1000, tuple(range(8, 16)), (0, 4, 5, 6, 7, 16, 17, 18, 19)),  # a host with eight workers
        (20, (5, 15), (0, 1, 2, 3, 4, 6, 7, 8, 9, 11, 12, 13, 14, 16, 17, 18, 19)),
    ],
)
def test_who_dials_whom(size: int, local: tuple[int, ...], dialled: tuple[int, ...]) -> None:
    assert plan(size, *local) == dialled


def test_neighbours_dial_each_other_and_nobody_dials_more_with_more_workers() -> None:
    for size in (2, 3, 8, 9, 10, 50, 200):
        plans = [set(plan(size, index)) for index in range(size)]
        for index in range(size):
            after = (index + 1) % size
            assert after in plans[index] and index in plans[after]
        assert all(len(dialled) <= 2 * NEIGHBOURS + 1 for dialled in plans[1:])
