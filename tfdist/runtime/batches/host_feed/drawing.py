"""The thread in which a worker draws global batches for all workers of its host."""

from __future__ import annotations

import logging
import mmap
import os
import select
import socket
import threading
from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from tfdist.net.host_links import shared_memory
from tfdist.runtime.batches.host_feed.batch_notes import (
    BatchNote,
    EndNote,
    FailureNote,
    Note,
    Shape,
    encode,
    layout_of,
    places_in,
)

SLOTS = 2
"""Batches that lie in memory at once. Each worker holds another one or two that it has read ahead."""


class ReadersLeft(Exception):
    """The drawing worker itself needs no other batch."""


class BatchSender:
    """Hands batches to some readers, at most `SLOTS` ahead of the slowest.

    Args:
        readers: A connected socket to each reader, which this object owns from now on; the last is the drawing worker's
            own. When that one hangs up, nothing is sent any more: all workers take as many batches.
    """

    def __init__(self, readers: Sequence[socket.socket]) -> None:
        self._readers = {reader.fileno(): reader for reader in readers}
        self._own = readers[-1].fileno()
        self._slots = [_Slot() for _ in range(SLOTS)]
        self._sent = 0
        self._poller = select.poll()
        for descriptor in self._readers:
            self._poller.register(descriptor, select.POLLIN)

    def send(self, arrays: Sequence[NDArray], largest: int) -> None:
        """Hands a batch to all readers; waits until the slot before it is free.

        Args:
            arrays: The batch's, of numbers.
            largest: As in `BatchNote`.

        Raises:
            ReadersLeft: The drawing worker's own reader has hung up.
            OSError: The system gives no memory.
        """
        number = self._sent % SLOTS
        slot = self._slots[number]
        self._hear(0)
        while slot.reading:
            self._hear(None)
        shapes = tuple(array.shape for array in arrays)
        is_new = slot.fill(arrays, shapes)
        self._sent += 1
        slot.reading = set(self._readers)
        self._tell(BatchNote(number, largest, shapes), [slot.descriptor] if is_new else [])

    def end(self) -> None:
        """Says that there is no other batch."""
        self._tell(EndNote())

    def fail(self, failure: FailureNote) -> None:
        """Says that the data has failed."""
        self._tell(failure)

    def close(self) -> None:
        """Hangs up. What was sent can still be read."""
        for reader in self._readers.values():
            reader.close()
        self._readers.clear()
        for slot in self._slots:
            slot.close()

    def _tell(self, note: Note, descriptors: Sequence[int] = ()) -> None:
        message = encode(note)
        for descriptor, reader in list(self._readers.items()):
            try:
                socket.send_fds(reader, [message], descriptors, socket.MSG_NOSIGNAL)
            except ConnectionError:
                self._leave(descriptor)
        if self._own not in self._readers:
            raise ReadersLeft

    def _hear(self, timeout: float | None) -> None:
        """Takes in what readers have read, and who has hung up; None for `timeout` waits until there is something."""
        for descriptor, _ in self._poller.poll(timeout):
            try:
                read = self._readers[descriptor].recv(1)
            except ConnectionError:
                read = b""
            if read:
                self._slots[read[0]].reading.discard(descriptor)
            else:
                self._leave(descriptor)
        if self._own not in self._readers:
            raise ReadersLeft

    def _leave(self, descriptor: int) -> None:
        self._poller.unregister(descriptor)
        self._readers.pop(descriptor).close()
        for slot in self._slots:
            slot.reading.discard(descriptor)


class _Slot:
    """Memory for one batch.

    Attributes:
        descriptor: That of the memory; -1 before the first batch.
        reading: The readers that have not read its batch yet.
    """

    def __init__(self) -> None:
        self.descriptor = -1
        self.reading: set[int] = set()
        self._bytes: NDArray[np.uint8] = np.empty(0, np.uint8)
        self._places: tuple[NDArray, ...] = ()
        self._shapes: tuple[Shape, ...] | None = None

    def fill(self, arrays: Sequence[NDArray], shapes: tuple[Shape, ...]) -> bool:
        """Copies arrays of these shapes into the memory; returns whether that is new, as they had no room."""
        is_new = False
        if shapes != self._shapes:
            dtypes = [array.dtype for array in arrays]
            size = layout_of(shapes, dtypes).size
            is_new = size > self._bytes.size
            if is_new:
                self.close()
                self.descriptor = shared_memory(size)
                self._bytes = np.frombuffer(mmap.mmap(self.descriptor, size), np.uint8)
            self._places, self._shapes = places_in(self._bytes, shapes, dtypes), shapes
        for array, place in zip(arrays, self._places, strict=True):
            np.copyto(place, array)
        return is_new

    def close(self) -> None:
        """Gives the memory up; readers that have it keep it."""
        self._places, self._shapes = (), None
        if self.descriptor >= 0:
            os.close(self.descriptor)
        self.descriptor = -1
        self._bytes = np.empty(0, np.uint8)


JOIN_SECONDS = 10.0
"""Seconds that the end of an iterator waits for a batch that is being made. TensorFlow's own waits without a bound."""

_log = logging.getLogger("tfdist")


class Drawing:
    """Draws batches until there are none, one cannot be made, or the drawing worker's own reader hangs up.

    Args:
        batches: The arrays of each batch. Nobody else uses the iterator.
        rows: The samples of a batch.
        failure_of: Describes an error that the iterator has raised.
        readers: As `BatchSender` takes them.
    """

    def __init__(
        self,
        batches: Iterator[Sequence[NDArray]],
        rows: Callable[[Sequence[NDArray]], int],
        failure_of: Callable[[Exception], FailureNote],
        readers: Sequence[socket.socket],
    ) -> None:
        self._batches: Iterator[Sequence[NDArray]] | None = batches
        self._rows = rows
        self._failure_of = failure_of
        self._sender = BatchSender(readers)
        self._thread = threading.Thread(target=self._draw, name="tfdist-drawing", daemon=True)

    def start(self) -> None:
        """Starts the thread, once."""
        if self._thread.ident is None:
            self._thread.start()

    def end(self) -> None:
        """Waits until the thread, whose own reader has hung up, has ended; not much longer than for one batch."""
        if self._thread.ident is None:
            self._close()
        elif self._thread is not threading.current_thread():
            self._thread.join(JOIN_SECONDS)
            if self._thread.is_alive():
                _log.warning(
                    "The input pipeline is still making a batch that nobody needs, after %.0f s. It is left alone.",
                    JOIN_SECONDS,
                )

    def _draw(self) -> None:
        try:
            self._send_all()
        except ReadersLeft:
            return
        finally:
            self._close()

    def _send_all(self) -> None:
        assert self._batches is not None
        largest = 0
        try:
            for arrays in self._batches:
                largest = max(largest, self._rows(arrays))
                self._sender.send(arrays, largest)
        except ReadersLeft:
            raise
        except Exception as error:  # Whatever the script's pipeline raises is every worker's to raise.
            self._sender.fail(self._failure_of(error))
        else:
            self._sender.end()

    def _close(self) -> None:
        self._sender.close()
        # TensorFlow's iterator goes here, in the thread that has used it, and not when the channel goes.
        self._batches = None
