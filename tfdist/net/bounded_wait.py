"""Waiting for the first of several sockets or pipes to be ready, always with a bound; a ready set is many as one."""

from __future__ import annotations

import contextlib
import select
from collections.abc import Iterable
from typing import Generic, Protocol, TypeVar


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


SourceT = TypeVar("SourceT", bound=Source)


class ReadySet(Generic[SourceT]):
    """Sockets, of which it tells the ones that are ready.

    It is a source itself, ready when one of its own is: who waits for it need not know how many there are. It closes
    none of them; one that is closed by its owner is never ready.
    """

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._sources: dict[int, SourceT] = {}
        self._descriptors: dict[SourceT, int] = {}

    def fileno(self) -> int:
        return -1 if self._epoll.closed else self._epoll.fileno()

    def __len__(self) -> int:
        return len(self._sources)

    def add(self, source: SourceT) -> None:
        """Waits for what comes from a source, too; one that is closed is left out."""
        descriptor = source.fileno()
        if descriptor < 0:
            return
        if descriptor in self._sources:
            # Of one that was closed meanwhile: the system gives its number to the next.
            self.discard(self._sources[descriptor])
        self._epoll.register(descriptor, select.EPOLLIN)
        self._sources[descriptor] = source
        self._descriptors[source] = descriptor

    def wait_to_write(self, source: SourceT, wanted: bool) -> None:
        """Sets whether the source is ready also when something can be sent on it."""
        descriptor = self._descriptors.get(source)
        if descriptor is not None and descriptor == source.fileno():
            self._epoll.modify(descriptor, select.EPOLLIN | (select.EPOLLOUT if wanted else 0))

    def discard(self, source: SourceT) -> None:
        """Waits for it no longer; it may be closed already, and need not be one of these."""
        descriptor = self._descriptors.pop(source, None)
        if descriptor is not None:
            del self._sources[descriptor]
            # Of a closed one the system has forgotten the number.
            with contextlib.suppress(OSError):
                self._epoll.unregister(descriptor)

    def ready(self) -> list[SourceT]:
        """Those that are ready now, in no order; never waits."""
        if not self._sources:
            return []
        events = self._epoll.poll(0, len(self._sources))
        return [self._sources[descriptor] for descriptor, _ in events if descriptor in self._sources]

    def close(self) -> None:
        """Waits for nothing any more."""
        self._sources.clear()
        self._descriptors.clear()
        self._epoll.close()
