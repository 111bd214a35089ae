from __future__ import annotations

import contextlib
import importlib.util
from collections.abc import Iterator

import pytest

from tests.clusters.ray.ray_cluster import RayCluster, ray_cluster
from tfdist.verify.hosts.namespace_hosts import NamespacesUnavailableError


@pytest.fixture(scope="session")
def running_ray() -> Iterator[RayCluster]:
    """A real Ray cluster of two nodes; it starts once."""
    if importlib.util.find_spec("ray") is None:
        pytest.skip('Ray is not installed: pip install "tfdist[ray]", or run .ci/ray')
    with contextlib.ExitStack() as stack:
        try:
            cluster = stack.enter_context(ray_cluster())
        except NamespacesUnavailableError as error:
            pytest.skip(str(error))
        yield cluster


@pytest.fixture
def cluster(running_ray: RayCluster) -> Iterator[RayCluster]:
    """The same, with all of its nodes."""
    running_ray.restore()
    yield running_ray
