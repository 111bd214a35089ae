"""Links between the worker processes of one host: a piece of memory that all share, and a socket for each pair.

The launcher makes those of all workers, of which each inherits its ends, and workers those of some of them, which they
hand one another: nothing has a name that another user could open, or that is left behind when all are killed. A socket
tells a worker at once when the other one has ended.
"""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import os
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

REGION_BYTES = (4 << 20) + 4096
"""The part of the memory that each worker writes into: it suits the caches, whatever the size of what is sent."""

GROUP_REGION_BYTES = (2 << 20) + 4096
"""That of links between some of the workers, of which there may be several."""

PAIR_REGION_BYTES = (512 << 10) + 4096
"""That of links from one worker to another, of which there may be many."""

LEAST_REGION_BYTES = 4096
"""That of links whose sockets alone are used."""

MOST_WORKERS = 16
"""With more, the sockets would be more descriptors than a process may have by default."""


@dataclass(frozen=True)
class LinkEnds:
    """One worker's ends of the links.

    Attributes:
        worker: The worker's index in the cluster.
        linked: The indices of all that are linked, itself included, ascending.
        memory: File descriptor of the memory, which has as many bytes for each of them.
        sockets: File descriptors of the sockets to the others, in their order.
    """

    worker: int
    linked: tuple[int, ...]
    memory: int
    sockets: tuple[int, ...]

    @property
    def rank(self) -> int:
        """The worker's place among those that are linked."""
        return self.linked.index(self.worker)

    @property
    def descriptors(self) -> tuple[int, ...]:
        """All of them: the memory's, then the sockets'."""
        return (self.memory, *self.sockets)

    @classmethod
    def of(cls, worker: int, linked: Sequence[int], descriptors: Sequence[int]) -> Self:
        """The ends that have these descriptors, in the order of `descriptors`."""
        memory, *sockets = descriptors
        return cls(worker, tuple(linked), memory, tuple(sockets))

    def close(self) -> None:
        """Closes them, for a worker that does not use them."""
        for descriptor in self.descriptors:
            os.close(descriptor)


class HostLinks:
    """The links between some workers, as the launcher that starts these makes them, or one of them.

    Use it as a context manager: the descriptors of the process that makes them are closed at its end.

    Args:
        workers: Their indices in the cluster, ascending; `MOST_WORKERS` at most.

    Raises:
        OSError: The system gives no memory or no descriptors.
        ValueError: There are too many workers.
    """

    def __init__(self, workers: Sequence[int], region_bytes: int = REGION_BYTES) -> None:
        if not 2 <= len(workers) <= MOST_WORKERS:
            raise ValueError(f"Links join 2 to {MOST_WORKERS} workers of a host. Received: {len(workers)}")
        self._workers = tuple(workers)
        self._sockets: dict[tuple[int, int], socket.socket] = {}
        with contextlib.ExitStack() as undo:
            undo.callback(self.close)
            self._memory = shared_memory(len(workers) * region_bytes)
            for one, other in itertools.combinations(workers, 2):
                # Of packets, so that a message is received whole or not at all.
                ends = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
                self._sockets[one, other], self._sockets[other, one] = ends
            undo.pop_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def ends_of(self, worker: int) -> LinkEnds:
        """The ends of one worker; they stay open as long as the links are."""
        sockets = tuple(self._sockets[worker, other].fileno() for other in self._workers if other != worker)
        return LinkEnds(worker, self._workers, self._memory, sockets)

    def taken_by(self, worker: int) -> LinkEnds:
        """The ends of one worker, which belong to the caller from now on.

        Raises:
            OSError: The system gives no more descriptors.
        """
        memory = os.dup(self._memory)
        sockets = [self._sockets.pop((worker, other)).detach() for other in self._workers if other != worker]
        return LinkEnds(worker, self._workers, memory, tuple(sockets))

    def close(self) -> None:
        """Closes the descriptors of the process that has made them. Workers that have got theirs keep them."""
        for end in self._sockets.values():
            end.close()
        self._sockets.clear()
        memory, self._memory = self._memory, -1
        if memory >= 0:
            os.close(memory)

    _memory = -1


class HostStar:
    """Sockets from the first of some workers of a host to each other one, as the launcher makes them.

    Use it as a context manager, as `HostLinks`.

    Args:
        workers: Their indices in the cluster; two at least.

    Raises:
        OSError: The system gives no descriptors.
    """

    def __init__(self, workers: Sequence[int]) -> None:
        self._first = workers[0]
        self._pairs: dict[int, tuple[socket.socket, socket.socket]] = {}
        with contextlib.ExitStack() as undo:
            undo.callback(self.close)
            for other in workers[1:]:
                self._pairs[other] = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            undo.pop_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def ends_of(self, worker: int) -> tuple[int, ...]:
        """The descriptors of one worker: the first has a socket to each other one, in their order, and these to it."""
        if worker == self._first:
            return tuple(near.fileno() for near, _ in self._pairs.values())
        return (self._pairs[worker][1].fileno(),)

    def close(self) -> None:
        """Closes the descriptors of the process that has made them. Workers that have got theirs keep them."""
        for pair in self._pairs.values():
            for end in pair:
                end.close()


def shared_memory(size: int) -> int:
    """The descriptor of memory without a name that no worker can make smaller under another one that reads it.

    Raises:
        OSError: The system gives no memory or no descriptor.
    """
    memory = os.memfd_create("tfdist", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        # Taken now: where there is none left, a worker that writes it later would be ended by a signal.
        os.posix_fallocate(memory, 0, size)
        fcntl.fcntl(memory, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
    except OSError:
        os.close(memory)
        raise
    return memory
