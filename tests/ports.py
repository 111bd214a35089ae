"""Ports of this machine for tests."""

from __future__ import annotations

import random

from tfdist.cluster.ports import candidates
from tfdist.errors import PortTakenError
from tfdist.launch.holding import PortHold


def free_ports(count: int) -> list[int]:
    """Ports that nobody has now; others than those of tests that look for some at the same time, most likely."""
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
