from __future__ import annotations

import pytest

from tfdist.errors import UsageError
from tfdist.plan.plan_inputs import ClusterSize


@pytest.mark.parametrize(("workers", "replicas", "each"), [(1, 1, 1), (1, 8, 8), (2, 8, 4), (3, 3, 1)])
def test_replicas_are_dealt_evenly(workers: int, replicas: int, each: int) -> None:
    assert ClusterSize(workers, replicas).per_worker == each


@pytest.mark.parametrize(("workers", "replicas"), [(2, 1), (2, 3), (3, 8), (1, 0)])
def test_replicas_that_cannot_be_dealt(workers: int, replicas: int) -> None:
    with pytest.raises(UsageError, match=rf"Expected a multiple of {workers}.*--replicas {replicas}$"):
        ClusterSize(workers, replicas)


def test_more_hosts_than_workers() -> None:
    with pytest.raises(UsageError, match="Expected 1 to 2 hosts"):
        ClusterSize(2, 2, hosts=3)
