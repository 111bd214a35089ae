"""Ports of this machine for doctors to meet on."""

from __future__ import annotations

from tests.helpers.ports import free_ports
from tfdist.cluster import Cluster
from tfdist.cluster.cluster_spec import Address


def on_loopback(count: int) -> Cluster:
    """A cluster whose workers are all this machine."""
    return Cluster(tuple(Address("127.0.0.1", port) for port in free_ports(count)))
