from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest

from tests.clusters.slurm.slurm_cluster import SlurmCluster, SlurmUnavailableError, slurm_cluster
from tfdist.verify.hosts.namespace_hosts import NamespacesUnavailableError


@pytest.fixture(scope="session")
def running_slurm() -> Iterator[SlurmCluster]:
    """A real Slurm of three nodes; it starts once."""
    with contextlib.ExitStack() as stack:
        try:
            cluster = stack.enter_context(slurm_cluster())
        except (SlurmUnavailableError, NamespacesUnavailableError) as error:
            pytest.skip(str(error))
        yield cluster


@pytest.fixture
def slurm(running_slurm: SlurmCluster) -> Iterator[SlurmCluster]:
    """The same, with no job at the beginning and none at the end."""
    yield running_slurm
    running_slurm.clear()
