"""Parts of the files that each worker reads."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tfdist.order.epoch_order import bounds, num_steps
from tfdist.order.sequential_order import LaneOrder, Lanes
from tfdist.plan.plan_inputs import SourceSizes


@dataclass(frozen=True)
class WorkerReads:
    """The reads of one worker in an epoch.

    Attributes:
        worker: Its index.
        samples: The number of samples that it trains on; always exact.
        file_samples: The same by file, int64 [files]. Exact in the order of the files; the expected numbers with a
            shuffled order, which is new in every epoch. About right where files are read in sequence.
        file_bytes: Bytes that it reads of each file, int64 [files], by the mean size of the file's records. More than
            it trains on where files are read in sequence, and records of other workers are skipped.
    """

    worker: int
    samples: int
    file_samples: NDArray[np.int64]
    file_bytes: NDArray[np.int64]

    @property
    def bytes(self) -> int:
        """Bytes that it reads in an epoch."""
        return int(self.file_bytes.sum())

    @property
    def files(self) -> NDArray[np.int64]:
        """The places, in the source's list, of the files that it reads."""
        return np.flatnonzero(self.file_bytes)


def worker_reads(sizes: SourceSizes, batch_size: int, workers: int, shuffle: bool) -> tuple[WorkerReads, ...]:
    """Returns what each worker reads in an epoch.

    Args:
        sizes: The source.
        batch_size: Samples of a global batch.
        workers: The number of workers.
        shuffle: Whether every epoch has an order of its own.
    """
    if sizes.shares:
        own = _all_of(sizes)
        return tuple(dataclasses.replace(own, worker=worker) for worker in range(workers))
    if sizes.sequence is not None:
        return tuple(_in_sequence(sizes, sizes.sequence.lanes, batch_size, workers, shuffle))
    counts = np.array([file.samples for file in sizes.files], np.int64)
    bytes_ = np.array([file.size for file in sizes.files], np.int64)
    ends = np.concatenate([[0], np.cumsum(counts)])
    found = []
    for worker in range(workers):
        before = _samples_before(ends, int(ends[-1]), batch_size, workers, worker)
        samples = int(before[-1])
        part, exact = samples / ends[-1], np.diff(before)
        mine = np.rint(counts * part).astype(np.int64) if shuffle else exact
        share = 1.0 if sizes.whole else part if shuffle else exact / np.maximum(counts, 1)
        found.append(WorkerReads(worker, samples, mine, np.rint(bytes_ * share).astype(np.int64)))
    return tuple(found)


def _all_of(sizes: SourceSizes) -> WorkerReads:
    """Returns what a worker reads that has all files to itself."""
    counts = np.array([file.samples for file in sizes.files], np.int64)
    return WorkerReads(0, sizes.samples, counts, np.array([file.size for file in sizes.files], np.int64))


def _in_sequence(
    sizes: SourceSizes, lanes: Lanes, batch_size: int, workers: int, shuffle: bool
) -> Iterator[WorkerReads]:
    """Yields what is read of lanes: every worker that takes a sample of a lane reads all of it."""
    whole = _all_of(sizes)
    order = LaneOrder(lanes, batch_size, shuffle=shuffle)
    layout = order.layout(0)
    lane_of = np.zeros(len(sizes.files), np.int64)
    lane_of[layout.files] = np.searchsorted(layout.lane_starts, layout.file_starts, side="right") - 1
    ends, batch = np.array([0, sizes.samples]), min(batch_size, sizes.samples)
    for worker in range(workers):
        read = np.isin(np.arange(lanes.number), order.lanes_of(0, workers, worker))
        samples = int(_samples_before(ends, sizes.samples, batch_size, workers, worker)[-1])
        first, last = (place / batch for place in bounds(batch, workers, worker))
        if shuffle:
            part, mine = layout.sizes[read].sum() / sizes.samples, whole.file_samples * (samples / sizes.samples)
        else:
            part, mine = read[lane_of], whole.file_samples * _parts(layout.sizes, first, last)[lane_of]
        bytes_ = np.rint(whole.file_bytes * part).astype(np.int64)
        yield WorkerReads(worker, samples, np.rint(mine).astype(np.int64), bytes_)


def _parts(sizes: NDArray[np.int64], first: float, last: float) -> NDArray[np.float64]:
    """The part of each lane, [lanes], that lies from `first` to `last` of every batch, where lanes stand in a row."""
    ends = np.cumsum(sizes) / sizes.sum()
    starts = ends - sizes / sizes.sum()
    common = np.minimum(ends, last) - np.maximum(starts, first)
    return np.clip(common, 0, None) / (ends - starts)


def _samples_before(
    places: NDArray[np.int64], samples: int, batch_size: int, workers: int, worker: int
) -> NDArray[np.int64]:
    """The number of a worker's samples before each of `places` in an epoch's order, of the same shape."""
    batch_size = min(batch_size, samples)
    start, stop = bounds(batch_size, workers, worker)
    full = (num_steps(samples, batch_size) - bool(samples % batch_size)) * batch_size
    within = np.minimum(places, full)
    count = within // batch_size * (stop - start) + np.clip(within % batch_size - start, 0, stop - start)
    tail_start, tail_stop = bounds(samples - full, workers, worker)
    return count + np.clip(places - full - tail_start, 0, tail_stop - tail_start)
