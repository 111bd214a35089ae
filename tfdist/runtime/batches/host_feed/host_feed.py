"""One worker's channels to the worker of its host that draws the batches."""

from __future__ import annotations

import contextlib
import mmap
import os
import select
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from tfdist.errors import WorkerFailedError
from tfdist.runtime.batches.host_feed.batch_notes import MOST_BYTES, BatchNote, EndNote, FailureNote, decode, places_in
from tfdist.runtime.batches.host_feed.batch_slicer import BatchSlicer
from tfdist.runtime.batches.host_feed.drawing import Drawing
from tfdist.runtime.transport.shared_memory.output_buffers import OutputBuffers


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


_OFFER = b"channel"

MakeDrawing = Callable[[Sequence[socket.socket]], Drawing]
"""Makes what draws for a channel, of the sockets to its readers."""


class FeedChannel:
    """One iterator's batches, as this worker reads them.

    Args:
        number: Its place in the order in which all workers of the host open theirs.
        receiver: This worker's end, which this object owns from now on.
        slicer: Cuts out the slices of its replicas.
        drawing: What draws, where this worker does.
        error_of: The error that a failure of the data is to raise here.
        buffers: Memory for the slices.
    """

    def __init__(
        self,
        number: int,
        receiver: BatchReceiver,
        slicer: BatchSlicer,
        drawing: Drawing | None,
        error_of: Callable[[FailureNote], Exception],
        buffers: OutputBuffers,
    ) -> None:
        self.number = number
        self._receiver = receiver
        self._slicer = slicer
        self._drawing = drawing
        self._error_of = error_of
        self._buffers = buffers
        self._slices: list[list[NDArray]] = []
        self._failure: Exception | None = None
        self._is_open = True
        # The thread that reads may be the one in which Python collects what closes the channel.
        self._lock = threading.RLock()

    @property
    def failure(self) -> Exception | None:
        """The error by which the batches have ended before their end; None where they have not."""
        return self._failure

    def next_slice(self) -> list[NDArray]:
        """The arrays of the next slice: those of this worker's replicas, in turn.

        Raises:
            StopIteration: There is none, or there is a `failure`.
        """
        with self._lock:
            if not self._slices:
                self._slices = self._next_batch()
            return self._slices.pop(0)

    def close(self) -> None:
        """Ends the channel for this worker, and where it draws, for all: they take as many batches as it has."""
        if not self._is_open:
            return
        self._is_open = False
        self._receiver.abandon()
        with self._lock:
            self._receiver.close()
        if self._drawing is not None:
            self._drawing.end()

    def _next_batch(self) -> list[list[NDArray]]:
        if not self._is_open or self._failure is not None:
            raise StopIteration
        if self._drawing is not None:
            self._drawing.start()
        try:
            came = self._receiver.receive()
        except Abandoned:
            raise StopIteration from None
        except WorkerFailedError as error:
            self._failure = error
            raise StopIteration from None
        if isinstance(came, FailureNote):
            self._failure = self._error_of(came)
        if isinstance(came, EndNote | FailureNote):
            raise StopIteration
        slices = self._slicer.slices(came.arrays, came.largest, self._copied)
        self._receiver.release(came)
        return slices

    def _copied(self, array: NDArray) -> NDArray:
        copy = self._buffers.take(array.size, array.dtype).reshape(array.shape)
        copy[...] = array
        return copy


class HostFeed:
    """One worker's channels. All workers of a host open theirs in the same order, as they make iterators.

    Args:
        worker: This worker's index.
        workers: The indices of the workers of its host, ascending; the first one draws.
        sockets: File descriptors of its `HostStar`, which this object owns from now on.

    Attributes:
        runs_python: Whether Python code has made batches in the call under way, on the worker that draws alone.
    """

    def __init__(self, worker: int, workers: Sequence[int], sockets: Sequence[int]) -> None:
        self.workers = tuple(workers)
        self._worker = worker
        self._links = [socket.socket(fileno=descriptor) for descriptor in sockets]
        for link in self._links:
            link.setblocking(True)
            # Programs that the worker starts must not keep a link open when it has ended.
            link.set_inheritable(False)
        # As long as their iterators live.
        self._channels: WeakValueDictionary[int, FeedChannel] = WeakValueDictionary()
        self._buffers = OutputBuffers()
        self._opened = 0
        self.runs_python = False
        self._calls = 0

    @property
    def draws(self) -> bool:
        """True if this worker draws for its host."""
        return self._worker == self.drawer

    @property
    def drawer(self) -> int:
        """The index of the worker that draws."""
        return self.workers[0]

    def open(
        self,
        make_drawing: MakeDrawing,
        slicer: BatchSlicer,
        dtypes: Sequence[np.dtype],
        error_of: Callable[[FailureNote], Exception],
    ) -> FeedChannel:
        """Opens the next channel.

        Args:
            make_drawing: Called on the worker that draws.
            slicer: Cuts out the slices of this worker's replicas.
            dtypes: Those of the arrays of a batch.
            error_of: The error that a failure of the data is to raise here.

        Raises:
            WorkerFailedError: The worker that draws has ended, or the system gives no descriptors.
        """
        try:
            link, drawing = self._offered(make_drawing) if self.draws else (self._taken(), None)
        except OSError as error:
            raise self._broken_off(str(error)) from error
        self._opened += 1
        receiver = BatchReceiver(link, dtypes, self.drawer)
        channel = FeedChannel(self._opened, receiver, slicer, drawing, error_of, self._buffers)
        self._channels[self._opened] = channel
        return channel

    @property
    def is_in_call(self) -> bool:
        """True if a `fit`, `evaluate` or `predict` is under way."""
        return self._calls > 0

    def from_drawer(self, content: bytes) -> bytes:
        """The bytes of the worker that draws, on all workers of the host, which call this together with as many.

        Raises:
            WorkerFailedError: One of them has ended.
        """
        try:
            for link in self._links if self.draws else ():
                link.send(content, socket.MSG_NOSIGNAL)
            received = content if self.draws else self._links[0].recv(len(content))
        except OSError as error:
            raise self._broken_off(str(error)) from error
        if len(received) != len(content):
            raise self._broken_off(f"worker {self.drawer} has ended")
        return received

    def next_slice(self, number: int) -> list[NDArray]:
        """The arrays of the next slice of the channel of this number; see `FeedChannel.next_slice`."""
        channel = self._channels.get(int(number))
        if channel is None:
            raise StopIteration
        return channel.next_slice()

    def close(self) -> None:
        """Closes all channels and hangs up."""
        for channel in list(self._channels.values()):
            channel.close()
        for link in self._links:
            link.close()

    @contextlib.contextmanager
    def calling(self) -> Iterator[None]:
        """Around a call of `fit`, `evaluate` or `predict`: what the outermost one leaves open is closed.

        Iterators that are abandoned in the middle of an epoch live until Python collects them, which may be late.
        """
        self._calls += 1
        try:
            yield
        finally:
            self._calls -= 1
            if not self._calls:
                for channel in list(self._channels.values()):
                    channel.close()

    def _broken_off(self, why: str) -> WorkerFailedError:
        return WorkerFailedError(
            f"The workers of this host cannot share the batches that worker {self.drawer} draws: {why}. Another worker "
            "has ended, or a higher limit of open files (ulimit -n) is needed."
        )

    def _offered(self, make_drawing: MakeDrawing) -> tuple[socket.socket, Drawing]:
        """This worker's end of a new channel, and what draws, once the others have been sent theirs."""
        with contextlib.ExitStack() as undo:
            pairs = []
            for _ in (*self._links, None):
                pairs.append(socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET))
                for end in pairs[-1]:
                    undo.callback(end.close)
            drawing = make_drawing([near for near, _ in pairs])
            for link, (_, far) in zip(self._links, pairs, strict=False):
                socket.send_fds(link, [_OFFER], [far.fileno()], socket.MSG_NOSIGNAL)
            undo.pop_all()
        for _, far in pairs[:-1]:
            far.close()
        return pairs[-1][1], drawing

    def _taken(self) -> socket.socket:
        """This worker's end of the next channel, once the worker that draws has come to it; the watchdog bounds it."""
        (link,) = self._links
        message, descriptors, _, _ = socket.recv_fds(link, len(_OFFER), 1, socket.MSG_CMSG_CLOEXEC)
        if not message:
            raise ConnectionError(f"worker {self.drawer} has ended")
        if not descriptors:
            raise OSError("the system gives this worker no more descriptors")
        return socket.socket(fileno=descriptors[0])
