"""Ports of this machine for tests.

They lie below those that tfdist chooses from by itself, which the jobs of other tests hold and leave in TIME_WAIT, and
far below those that the system hands out. Each test process has a block of its own: what one has found, and has not
taken yet, no other one finds too.
"""

from __future__ import annotations

import functools
import itertools
import os
import socket
from collections.abc import Iterator

from tfdist.cluster.ports import FIRST_PORT, has_recent_connections, tcp_tables
from tfdist.errors import PortTakenError
from tfdist.net.port_reservation import PortReservation

FIRST, END, BLOCK = FIRST_PORT // 2, FIRST_PORT, 400


def free_ports(count: int) -> list[int]:
    """Ports that nobody has now, and that no test gets at the same time; others than the last time."""
    ports = itertools.islice(_block().ports, BLOCK)
    with PortReservation() as hold:
        found = list(itertools.islice((port for port in ports if _is_free(port, hold)), count))
    assert len(found) == count, "no free ports"
    return found


def _is_free(port: int, hold: PortReservation) -> bool:
    try:
        hold.take(port)
    except PortTakenError:
        return False
    # Those of who shared it, as workers do, keep out nobody but who does not share it.
    return not any(has_recent_connections(table, port) for table in tcp_tables())


class _Block:
    """The ports of one test process, over and over; the kernel frees the block when the process ends."""

    def __init__(self) -> None:
        self._lock = socket.socket(socket.AF_UNIX)
        blocks = range(FIRST, END, BLOCK)
        for place in range(len(blocks)):
            block = blocks[(os.getpid() + place) % len(blocks)]
            try:
                self._lock.bind(f"\0tfdist-test-ports-{block}")
            except OSError:
                continue
            self.ports: Iterator[int] = itertools.cycle(range(block, block + BLOCK))
            return
        raise AssertionError("other test processes have all ports")


@functools.cache
def _block() -> _Block:
    return _Block()
