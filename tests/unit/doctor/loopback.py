"""Ports of this machine for doctors to meet on."""

from __future__ import annotations

import random

from tfdist.cluster import Cluster
from tfdist.cluster.ports import candidates
from tfdist.cluster.spec import Address
from tfdist.errors import PortTakenError
from tfdist.launch.holding import PortHold


def free_ports(count: int) -> list[int]:
    """Ports that nobody has now."""
    found: list[int] = []
    with PortHold() as hold:
        for port in candidates(random.randrange(1 << 30)):
            try:
                hold.take(port)
            except PortTakenError:
                continue
            found.append(port)
            if len(found) == count:
                return found
    raise AssertionError("no free ports")


def on_loopback(count: int) -> Cluster:
    """A cluster whose workers are all this machine."""
    return Cluster(tuple(Address("127.0.0.1", port) for port in free_ports(count)))
