"""Waiting for the first of several sockets or pipes to be ready, always with a bound."""

from __future__ import annotations

import select
from collections.abc import Iterable
from typing import Protocol


class Source(Protocol):
    """An object with a file descriptor, which is -1 once it is closed."""

    def fileno(self) -> int: ...


def wait_for(readable: Iterable[Source], seconds: float, writable: Iterable[Source] = ()) -> None:
    """Returns when one of the sources is ready, or after `seconds`."""
    # Not select(), which does not take descriptors from 1024 on.
    poller = select.poll()
    masks: dict[int, int] = {}
    for sources, mask in ((readable, select.POLLIN), (writable, select.POLLOUT)):
        for source in sources:
            masks[source.fileno()] = masks.get(source.fileno(), 0) | mask
    for descriptor, mask in masks.items():
        if descriptor >= 0:
            poller.register(descriptor, mask)
    poller.poll(max(0.0, seconds) * 1000)


def is_writable(source: Source) -> bool:
    """Returns whether sending would not block, or a connection attempt on the socket has ended."""
    poller = select.poll()
    poller.register(source.fileno(), select.POLLOUT)
    return bool(poller.poll(0))
