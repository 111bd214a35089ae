from __future__ import annotations

import pytest

from tfdist.cli.plan import layout_of
from tfdist.cluster.cluster_spec import Cluster
from tfdist.errors import UsageError
from tfdist.plan.plan_inputs import ClusterSize

TWO_HOSTS = Cluster.parse("a:1,b:1")
ONE_HOST = Cluster.parse("a:1,a:2")


@pytest.mark.parametrize(
    ("cluster", "gpus", "logical", "replicas", "expected"),
    [
        (None, 0, None, None, ClusterSize(1, 1)),
        (None, 4, None, None, ClusterSize(1, 4)),
        (None, 0, 3, None, ClusterSize(1, 3)),  # logical CPUs
        (None, 2, 3, None, ClusterSize(1, 6)),
        (None, 0, None, 8, ClusterSize(1, 8)),
        (TWO_HOSTS, 0, None, None, ClusterSize(2, 2, 2)),
        (TWO_HOSTS, 4, None, None, ClusterSize(2, 8, 2)),  # as many on the other host
        (ONE_HOST, 4, None, None, ClusterSize(2, 4, 1)),  # shared out
        (ONE_HOST, 0, 3, 16, ClusterSize(2, 16, 1)),  # the user knows
        (ONE_HOST, 0, 1, None, ClusterSize(2, 2, 1)),
    ],
)
def test_who_takes_part(
    cluster: Cluster | None, gpus: int, logical: int | None, replicas: int | None, expected: ClusterSize
) -> None:
    assert layout_of(cluster, gpus, logical, replicas) == expected


@pytest.mark.parametrize(("gpus", "expected"), [(1, ClusterSize(2, 2, 1)), (4, ClusterSize(2, 4, 1))])
def test_workers_that_share_gpus(gpus: int, expected: ClusterSize) -> None:
    assert layout_of(ONE_HOST, gpus, None, share_gpu=True) == expected


@pytest.mark.parametrize(
    ("cluster", "gpus", "logical", "expected"),
    [
        (ONE_HOST, 1, None, "2 workers on one host need a GPU each. Received: 1 GPU"),
        (ONE_HOST, 0, 3, "Received: devices.logical=3 with 2 workers. Leave it out"),
    ],
)
def test_impossible_layouts_are_refused(cluster: Cluster, gpus: int, logical: int | None, expected: str) -> None:
    with pytest.raises(UsageError, match=expected):
        layout_of(cluster, gpus, logical)
