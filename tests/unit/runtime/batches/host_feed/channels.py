"""Channels between a drawing thread and readers in one process."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from tfdist.runtime.batches.host_feed.batch_notes import FailureNote
from tfdist.runtime.batches.host_feed.batch_slicer import BatchSlicer
from tfdist.runtime.batches.host_feed.drawing import Drawing
from tfdist.runtime.batches.host_feed.host_feed import BatchReceiver, FeedChannel, HostFeed

DTYPES = (np.dtype(np.float32), np.dtype(np.int64))


def batch(number: int, rows: int) -> list[NDArray]:
    """A batch of features and labels that tell which it is."""
    features = np.arange(rows * 3, dtype=np.float32).reshape(rows, 3) + 1000 * number
    return [features, np.arange(rows) + 1000 * number]


def rows_of(arrays: Sequence[NDArray]) -> int:
    """The samples of a batch."""
    return len(arrays[0])


def failure_of(error: Exception) -> FailureNote:
    """How the errors of these tests are told."""
    return FailureNote(3, str(error))


def socket_pair() -> tuple[socket.socket, socket.socket]:
    """The two ends of a channel's socket."""
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


def descriptors() -> set[str]:
    """The open file descriptors of this process."""
    return set(os.listdir("/proc/self/fd"))


def slicer_of(worker: int, workers: int, each: int = 1) -> BatchSlicer:
    """That of a worker with `each` replicas."""
    return BatchSlicer(workers * each, range(worker * each, (worker + 1) * each), (True, True), True)


@contextlib.contextmanager
def receivers_of(batches: Iterable[list[NDArray]], count: int) -> Iterator[tuple[Drawing, list[BatchReceiver]]]:
    """A drawing that has started, and its readers; the last one is the drawing worker's own."""
    pairs = [socket_pair() for _ in range(count)]
    receivers = [BatchReceiver(far, DTYPES, 0) for _, far in pairs]
    drawing = Drawing(iter(batches), rows_of, failure_of, [near for near, _ in pairs])
    drawing.start()
    try:
        yield drawing, receivers
    finally:
        for receiver in receivers:
            receiver.close()
        drawing.end()


@contextlib.contextmanager
def feeds(workers: Sequence[int]) -> Iterator[list[HostFeed]]:
    """The feeds of all workers of a host."""
    pairs = [socket_pair() for _ in workers[1:]]
    stars = [[near.detach() for near, _ in pairs], *([far.detach()] for _, far in pairs)]
    made = [HostFeed(worker, workers, star) for worker, star in zip(workers, stars, strict=True)]
    try:
        yield made
    finally:
        for feed in made:
            feed.close()


def open_all(made: Sequence[HostFeed], batches: Iterable[list[NDArray]]) -> list[FeedChannel]:
    """A channel of each feed, in the order in which none has to wait for another."""

    def make_drawing(readers: Sequence[socket.socket]) -> Drawing:
        return Drawing(iter(batches), rows_of, failure_of, readers)

    def error_of(failure: FailureNote) -> Exception:
        return ValueError(failure.text)

    return [feed.open(make_drawing, slicer_of(place, len(made)), DTYPES, error_of) for place, feed in enumerate(made)]
