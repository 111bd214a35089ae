"""Messages between a host's workers about links between some of them, sorted by the group that they are about."""

from __future__ import annotations

import contextlib
import os
import queue
import select
import socket
import threading
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tfdist.errors import WorkerFailedError
from tfdist.net.host_links import MOST_WORKERS, LinkEnds

_MOST_BYTES = 4096
_SEPARATOR = "\0"

ENDED = "ended"
"""The kind of the message that a worker has ended, which it does not send itself."""


class Message(NamedTuple):
    """A message of another worker.

    Attributes:
        kind: What it is.
        text: In words.
        descriptors: File descriptors that it hands over, which belong to the receiver; none where the receiver may not
            have so many.
    """

    kind: str
    text: str = ""
    descriptors: tuple[int, ...] = ()


Box = queue.SimpleQueue[Message]


class LinkMailbox:
    """One worker's end of the sockets over which workers hand one another links.

    Different groups come in different orders on different workers, in several threads: a thread of its own, which
    starts with the first group, reads what comes for any of them, and keeps what this worker does not yet wait for.

    Args:
        ends: The worker's ends of links to the others, which this object owns from now on; it does not use the memory.

    Attributes:
        worker: The worker's index.
    """

    def __init__(self, ends: LinkEnds) -> None:
        os.close(ends.memory)
        self.worker = ends.worker
        others = [worker for worker in ends.linked if worker != ends.worker]
        self._sockets = {worker: socket.socket(fileno=fd) for worker, fd in zip(others, ends.sockets, strict=True)}
        for end in self._sockets.values():
            end.setblocking(False)
            # Programs that the worker starts must not keep a link open when it has ended.
            end.set_inheritable(False)
        self._lock = threading.Lock()
        self._boxes: defaultdict[str, Box] = defaultdict(queue.SimpleQueue)
        self._waiting: dict[str, Sequence[int]] = {}
        self._ended: set[int] = set()
        self._reader = threading.Thread(target=self._read, name="tfdist-links", daemon=True)

    @contextlib.contextmanager
    def box(self, group: str, workers: Sequence[int]) -> Iterator[Box]:
        """Yields what comes for a group of the workers, and that one ends meanwhile; one thread at a time has it.

        Raises:
            WorkerFailedError: One of them has ended.
        """
        with self._lock:
            if self._reader.ident is None:
                self._reader.start()
            ended = self._ended.intersection(workers)
            if ended:
                raise has_ended(min(ended), workers)
            self._waiting[group] = workers
            box = self._boxes[group]
        try:
            yield box
        finally:
            with self._lock:
                del self._waiting[group]

    def send(self, to: int, group: str, message: Message) -> None:
        """Sends a message about a group whose box this worker has to another worker, which need not wait for it.

        The sender keeps the descriptors.

        Raises:
            WorkerFailedError: The other worker has ended, or the system does not take a message without descriptors.
            OSError: The system does not take the descriptors.
        """
        content = _SEPARATOR.join((group, message.kind, message.text)).encode()[:_MOST_BYTES]
        try:
            socket.send_fds(self._sockets[to], [content], message.descriptors, socket.MSG_NOSIGNAL)
        except ConnectionError as error:
            self._end(to)
            raise has_ended(to, self._waiting[group]) from error
        except OSError as error:
            if message.descriptors:
                raise
            raise broken_off(self._waiting[group], f"the link to worker {to} fails: {error}") from error

    def close(self) -> None:
        """Hangs up."""
        for end in self._sockets.values():
            with contextlib.suppress(OSError):  # The other one has hung up.
                end.shutdown(socket.SHUT_RDWR)
        if self._reader.ident is not None:
            self._reader.join()
        for end in self._sockets.values():
            end.close()
        for box in self._boxes.values():
            while not box.empty():
                for descriptor in box.get().descriptors:
                    os.close(descriptor)

    def _read(self) -> None:
        """Reads until all others have ended."""
        poller = select.poll()
        workers = {end.fileno(): worker for worker, end in self._sockets.items()}
        for descriptor in workers:
            poller.register(descriptor, select.POLLIN)
        while workers:
            for descriptor, _ in poller.poll():
                if not self._receive(self._sockets[workers[descriptor]]):
                    poller.unregister(descriptor)
                    self._end(workers.pop(descriptor))

    def _receive(self, end: socket.socket) -> bool:
        """Sorts a message in; whether there can be more."""
        try:
            content, descriptors, flags, _ = socket.recv_fds(
                end, _MOST_BYTES, MOST_WORKERS, socket.MSG_CMSG_CLOEXEC | socket.MSG_DONTWAIT
            )
        except BlockingIOError:
            return True
        except OSError:
            return False
        if not content:
            return False
        if flags & socket.MSG_CTRUNC:
            # The system gives this process no more descriptors; it has given some of them.
            for descriptor in descriptors:
                os.close(descriptor)
            descriptors = []
        group, kind, text = content.decode(errors="replace").split(_SEPARATOR, 2)
        with self._lock:
            self._boxes[group].put(Message(kind, text, tuple(descriptors)))
        return True

    def _end(self, worker: int) -> None:
        with self._lock:
            if worker in self._ended:
                return
            self._ended.add(worker)
            for group, workers in self._waiting.items():
                if worker in workers:
                    self._boxes[group].put(Message(ENDED, str(worker)))


def has_ended(worker: int, workers: Sequence[int]) -> WorkerFailedError:
    """The error of a group of the workers of which one has ended."""
    return broken_off(workers, f"worker {worker} has ended")


def broken_off(workers: Sequence[int], why: str) -> WorkerFailedError:
    """The error of a group of the workers whose exchange cannot go on."""
    return WorkerFailedError(
        f"This worker waited for the others in a collective of workers {', '.join(map(str, workers))}, and it broke "
        f"off: {why}."
    )
