from __future__ import annotations

import pytest

from tfdist.cluster.cluster_spec import Cluster
from tfdist.cluster.membership import Membership
from tfdist.errors import UsageError
from tfdist.launch.elastic.elastic_options import ElasticOptions


def hosts(count: int, local: tuple[int, ...] = (0,)) -> Membership:
    return Membership(Cluster.parse(",".join(f"host{number}:20000" for number in range(count))), local)


@pytest.mark.parametrize(("min_workers", "count"), [(2, 2), (2, 3), (3, 3), (3, 4), (3, 5), (5, 8)])
def test_more_than_half_is_allowed(min_workers: int, count: int) -> None:
    ElasticOptions(min_workers).check(hosts(count))


@pytest.mark.parametrize(
    ("min_workers", "membership", "said"),
    [
        (1, hosts(2), "must be more than half of the list.*Expected --min-workers 2 or more"),
        (2, hosts(4), "must be more than half of the list.*Expected --min-workers 3 or more"),
        (5, hosts(4), "Expected 1 to 4"),
        (1, Membership(None, (0,)), "all workers of this one are on this host"),
        (2, hosts(2, (0, 1)), "all workers of this one are on this host"),
    ],
)
def test_what_could_go_on_twice_or_lose_nobody_is_refused(min_workers: int, membership: Membership, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        ElasticOptions(min_workers).check(membership)


def test_less_than_half_is_allowed_where_no_two_parts_can_go_on_at_once() -> None:
    ElasticOptions(1).check(hosts(3), lambda: True)
    ElasticOptions(1, is_fenced=True).check(hosts(3))


def test_values_that_mean_nothing_are_refused() -> None:
    with pytest.raises(UsageError, match="--min-workers must be 1 or more"):
        ElasticOptions(0)
    with pytest.raises(UsageError, match="--rejoin-timeout must be more than 0 seconds"):
        ElasticOptions(2, rejoin_timeout=0.0)
