"""The order of samples that can only be read in sequence, file after file.

Files are dealt to *lanes*, and a lane is read from its first file to its last. A global batch takes samples of every
lane, in proportion to what the lane has, and holds them lane by lane: so a worker, whose pieces are contiguous, reads
some lanes and not the others. Lanes have nothing to do with workers: which samples make up global batch t, and in what
order, depends on sizes, seed and epoch alone.

Shuffled, the files come in another order in every epoch, and within a file each window of records is permuted.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tfdist.order.epoch_order import ROUNDS, mixed, moved, num_steps, numbers, permuted, sample_seeds
from tfdist.order.interleaved_parts import taken_before

_BLOCK = 1 << 12
"""Positions that are permuted at a time: each has keys of its own."""


def permuted_in_windows(
    positions: NDArray[np.int64], windows: NDArray[np.int64], sizes: NDArray[np.int64], name: str
) -> NDArray[np.int64]:
    """Returns where the permutation of its window takes each position.

    Args:
        positions: In their windows, counted from 0, [k].
        windows: The number of each one's window, of 0 or more, [k]; another number gives another permutation.
        sizes: The size of each one's window, below 2**31, [k].

    Returns:
        int64 [k], each in `range` of its size.
    """
    names = numbers(name, ROUNDS)
    permuted = positions.astype(np.uint64)
    for start in range(0, len(permuted), _BLOCK):
        block = slice(start, start + _BLOCK)
        keys = mixed(windows[block].astype(np.uint64) + names[:, np.newaxis], np.uint64(0))
        permuted[block] = _permute(permuted[block], sizes[block].astype(np.uint64), keys)
    return permuted.view(np.int64)


def _permute(cells: NDArray[np.uint64], sizes: NDArray[np.uint64], keys: NDArray[np.uint64]) -> NDArray[np.uint64]:
    cells = _pass(cells, sizes, keys)
    while len(outside := np.flatnonzero(cells >= sizes)):
        cells[outside] = _pass(cells[outside], sizes[outside], keys[:, outside])
    return cells


def _pass(cells: NDArray[np.uint64], sizes: NDArray[np.uint64], keys: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """One pass through the network, with a rectangle of its own for each cell: uint64 [k]."""
    roots = np.floor(np.sqrt((sizes - np.uint64(1)).astype(np.float64))).astype(np.uint64)
    columns = np.uint64(2) * (roots // np.uint64(2) + np.uint64(1))
    rows = (sizes + columns - np.uint64(1)) // columns
    return moved(cells, columns, rows, keys)


LANES = 64
"""Files that are read at the same time by default."""

SHUFFLE_BUFFER = 1 << 14
"""Samples that wait to be mixed, over all lanes, by default."""

_STEPS_SEEN = 64
"""Steps of an epoch that are looked at for the lanes of a worker: the first, the last and others between."""


@dataclass(frozen=True)
class Lanes:
    """The way in which files are read in sequence.

    Attributes:
        counts: The number of samples of each file, not all 0.
        number: The number of lanes, at least 1 and at most the number of files with samples.
        window: Samples that wait to be mixed in each lane, at least 1.
    """

    counts: tuple[int, ...]
    number: int
    window: int

    @classmethod
    def of(cls, counts: tuple[int, ...], most: int = LANES, shuffle_buffer: int = SHUFFLE_BUFFER) -> Lanes:
        """As many lanes as there are files with samples, but at most `most`, which share `shuffle_buffer`."""
        number = min(most, sum(count > 0 for count in counts))
        return cls(counts, number, max(1, -(-shuffle_buffer // number)))


@dataclass(frozen=True)
class LaneLayout:
    """The layout of the files of an epoch in its lanes.

    Attributes:
        sizes: Samples of each lane, int64 [lanes].
        lane_starts: Where each lane begins in a line of all lanes, one after another, int64 [lanes].
        files: The files in that line, int64 [files].
        file_starts: Where each of them begins in it, int64 [files].
    """

    sizes: NDArray[np.int64]
    lane_starts: NDArray[np.int64]
    files: NDArray[np.int64]
    file_starts: NDArray[np.int64]


class LaneOrder:
    """The order of the samples in every epoch. Samples are numbered file by file, in the order of the files.

    Attributes:
        num_samples: Samples of all files.
        seed: Any integer of at least 0.
        shuffle: Whether each epoch has a random order of its own.
    """

    def __init__(self, lanes: Lanes, batch_size: int, seed: int = 0, shuffle: bool = False) -> None:
        """Takes the lanes and the samples of a global batch."""
        self.lanes, self.seed, self.shuffle = lanes, seed, shuffle
        self._counts = np.array(lanes.counts, np.int64)
        self._first = np.concatenate([[0], np.cumsum(self._counts)])
        self.num_samples = int(self._first[-1])
        self._batch_size = min(batch_size, self.num_samples)
        self.layout = functools.lru_cache(maxsize=2)(self._lay_out)

    def at(self, epoch: int, places: NDArray[np.int64]) -> NDArray[np.int64]:
        """The samples at some places of an epoch; see `tfdist.order.epoch_order.EpochOrder.at`.

        Its cost grows with the number of batches that the places lie in, and not with where they are.
        """
        layout = self.layout(epoch)
        in_line = self._places_in_line(layout, places)
        slots = np.searchsorted(layout.file_starts, in_line, side="right") - 1
        files, records = layout.files[slots], in_line - layout.file_starts[slots]
        if self.shuffle and self.lanes.window > 1:
            records = self._mixed(epoch, files, records)
        return self._first[files] + records

    def sample_seeds(self, epoch: int, samples: NDArray[np.int64]) -> NDArray[np.int32]:
        """The random seeds of samples in an epoch; see `tfdist.order.epoch_order.EpochOrder.sample_seeds`."""
        return sample_seeds(self.seed, epoch, samples)

    def lanes_of(self, epoch: int, workers: int, worker: int) -> NDArray[np.int64]:
        """The lanes that a worker reads, sorted; in very long epochs, those that some of the steps show."""
        steps = num_steps(self.num_samples, self._batch_size)
        seen = np.unique(np.linspace(0, steps - 1, _STEPS_SEEN).astype(np.int64))
        starts = seen * self._batch_size
        sizes = np.minimum(self.num_samples - starts, self._batch_size)
        first, stop = -(-worker * sizes // workers), -(-(worker + 1) * sizes // workers)
        places = np.concatenate([starts + first, starts + stop - 1])[np.tile(stop > first, 2)]
        lanes = self._dealt(self.layout(epoch), places)[0].reshape(2, -1)
        read = np.zeros(self.lanes.number, np.bool_)
        for low, high in lanes.T.tolist():
            read[low : high + 1] = True
        return np.flatnonzero(read)

    def _lay_out(self, epoch: int) -> LaneLayout:
        files = np.flatnonzero(self._counts)
        if self.shuffle:
            files = files[permuted(np.arange(len(files)), len(files), f"files, seed {self.seed}, epoch {epoch}")]
        lanes = [files[lane :: self.lanes.number] for lane in range(self.lanes.number)]
        sizes = np.array([self._counts[lane].sum() for lane in lanes], np.int64)
        files = np.concatenate(lanes)
        counts = self._counts[files]
        return LaneLayout(sizes, np.cumsum(sizes) - sizes, files, np.cumsum(counts) - counts)

    def _places_in_line(self, layout: LaneLayout, places: NDArray[np.int64]) -> NDArray[np.int64]:
        lanes, in_lane = self._dealt(layout, places)
        return layout.lane_starts[lanes] + in_lane

    def _dealt(self, layout: LaneLayout, places: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The lane of each place, and the place in it, both int64 [k]."""
        steps, which = np.unique(places // self._batch_size, return_inverse=True)
        starts = steps * self._batch_size
        ends = np.minimum(starts + self._batch_size, self.num_samples)
        bounds, rows = np.unique(np.concatenate([starts, ends]), return_inverse=True)
        before, after = taken_before(layout.sizes, bounds)[rows].reshape(2, len(steps), len(layout.sizes))
        stops = np.cumsum(after - before, axis=1)
        within = places - starts[which]
        lanes = np.count_nonzero(stops[which] <= within[:, np.newaxis], axis=1)
        return lanes, before[which, lanes] + within - (stops - after + before)[which, lanes]

    def _mixed(self, epoch: int, files: NDArray[np.int64], records: NDArray[np.int64]) -> NDArray[np.int64]:
        """The records at places of files, once every window is permuted."""
        window = self.lanes.window
        numbers_ = records // window
        starts = numbers_ * window
        sizes = np.minimum(self._counts[files] - starts, window)
        # A file's windows begin with a number that no other file has: that of its first sample.
        names = self._first[files] + starts
        return starts + permuted_in_windows(records - starts, names, sizes, f"windows, seed {self.seed}, epoch {epoch}")
