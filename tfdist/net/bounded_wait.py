"""Waiting for the first of several things, always with a bound."""

from __future__ import annotations

import select
from collections.abc import Iterable
from typing import Protocol


class Source(Protocol):
    """Something with a file descriptor; -1 when it is closed."""

    def fileno(self) -> int: ...


def wait_for(readable: Iterable[Source], seconds: float, writable: Iterable[Source] = ()) -> None:
    """Returns when one of the sources is ready, or after `seconds`."""
    # Not select(), which takes no descriptor from 1024 on.
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
    """Whether a connection attempt on the socket has come to its end, or sending would not block."""
    poller = select.poll()
    poller.register(source.fileno(), select.POLLOUT)
    return bool(poller.poll(0))
