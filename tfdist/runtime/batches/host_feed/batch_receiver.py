"""A worker's end of a channel: it reads batches where the drawing worker has put them."""

from __future__ import annotations

import contextlib
import mmap
import os
import select
import socket
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tfdist.errors import WorkerFailedError
from tfdist.runtime.batches.host_feed.batch_notes import MOST_BYTES, BatchNote, EndNote, FailureNote, decode
from tfdist.runtime.batches.host_feed.slot_layout import places_in


class Abandoned(Exception):
    """This worker reads the channel no further."""


@dataclass(frozen=True)
class SharedBatch:
    """A batch in shared memory.

    Attributes:
        arrays: Its arrays, which the next batches overwrite once it is released.
        largest: Samples of the largest batch so far.
        slot: Where it lies.
    """

    arrays: tuple[NDArray, ...]
    largest: int
    slot: int


class BatchReceiver:
    """Receives the batches of one channel, in one thread at a time.

    Args:
        link: A connected socket to the drawing worker, which this object owns from now on.
        dtypes: Those of the arrays of a batch.
        drawer: The index of the drawing worker, for errors.
    """

    def __init__(self, link: socket.socket, dtypes: Sequence[np.dtype], drawer: int) -> None:
        self._link = link
        self._dtypes = tuple(dtypes)
        self._drawer = drawer
        self._memories: dict[int, NDArray[np.uint8]] = {}
        self._found: dict[int, tuple[BatchNote, SharedBatch]] = {}
        self._leaving = os.eventfd(0, os.EFD_CLOEXEC)
        self._poller = select.poll()
        self._poller.register(link.fileno(), select.POLLIN)
        self._poller.register(self._leaving, select.POLLIN)

    def receive(self) -> SharedBatch | EndNote | FailureNote:
        """The next batch, or that there is none; the worker's watchdog bounds the waiting.

        Raises:
            Abandoned: `abandon` was called.
            WorkerFailedError: The drawing worker has ended, or the system gives no descriptor or no memory.
        """
        ready = {descriptor for descriptor, _ in self._poller.poll()}
        if self._leaving in ready:
            raise Abandoned
        note, descriptors = self._next_note()
        if not isinstance(note, BatchNote):
            return note
        if descriptors:
            self._memories[note.slot] = self._mapped(descriptors)
            self._found.pop(note.slot, None)
        found = self._found.get(note.slot)
        if found is None or found[0] != note:
            arrays = places_in(self._memories[note.slot], note.shapes, self._dtypes)
            # To make the arrays costs more than to look them up.
            found = self._found[note.slot] = (note, SharedBatch(arrays, note.largest, note.slot))
        return found[1]

    def release(self, batch: SharedBatch) -> None:
        """Says that a batch has been read: its memory is for another one from now on."""
        with contextlib.suppress(ConnectionError):  # What comes next says that the other one has hung up.
            self._link.send(bytes([batch.slot]), socket.MSG_NOSIGNAL)

    def abandon(self) -> None:
        """Ends a `receive` that is under way, and every later one; from any thread."""
        os.eventfd_write(self._leaving, 1)

    def close(self) -> None:
        """Hangs up, when nobody receives any more."""
        self._link.close()
        os.close(self._leaving)
        self._memories.clear()
        self._found.clear()

    def _next_note(self) -> tuple[BatchNote | EndNote | FailureNote, list[int]]:
        try:
            try:
                received = self._receive()
            except ConnectionResetError:
                # The other one has hung up without reading what came last. What it has said before comes now.
                received = self._receive()
        except OSError as error:
            raise self._broken_off(f"the link to it fails: {error}") from error
        message, descriptors, flags = received
        if flags & socket.MSG_CTRUNC:
            for descriptor in descriptors:
                os.close(descriptor)
            raise self._broken_off("the system gives this worker no more descriptors; a higher limit (ulimit -n) helps")
        if not message:
            raise self._broken_off("it has ended, or has left these batches before this worker did")
        return decode(message), descriptors

    def _receive(self) -> tuple[bytes, list[int], int]:
        message, descriptors, flags, _ = socket.recv_fds(self._link, MOST_BYTES, 1, socket.MSG_CMSG_CLOEXEC)
        return message, descriptors, flags

    def _mapped(self, descriptors: Sequence[int]) -> NDArray[np.uint8]:
        (descriptor,) = descriptors
        try:
            return np.frombuffer(mmap.mmap(descriptor, 0, prot=mmap.PROT_READ), np.uint8)
        except OSError as error:
            raise self._broken_off(f"the system gives this worker no memory ({error})") from error
        finally:
            os.close(descriptor)

    def _broken_off(self, why: str) -> WorkerFailedError:
        return WorkerFailedError(
            f"This worker waited for a batch that worker {self._drawer} draws for all workers of this host, and none "
            f"came: {why}."
        )
