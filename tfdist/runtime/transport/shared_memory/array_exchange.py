"""Sums and copies of arrays between the workers of a host, through frames in shared memory.

Each worker writes its arrays frame by frame, one frame ahead of the one that it reads, and tells the others after each.
While it reads frame n it has written n + 1, and the others, which may be a frame ahead, write n + 2 at most: so a place
that is used again after `SLOTS` frames is never written while somebody still reads it.

Two workers, or any number where there is little to sum, read what all have written, and sum it themselves. Otherwise
each sums its share of a frame, writes that, and reads the others' (reduce-scatter, then all-gather), as in Patarasuk
and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations", 2009. Either way a number is summed in
the order of the workers: all of them get the same bits, in every run.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tfdist.runtime.transport.shared_memory.frame_layout import Piece, frames_of, pieces_within, share
from tfdist.runtime.transport.shared_memory.host_mesh import FRAME_BYTES, HostMesh, sizes_text

PART, RESULT = range(2)
"""The kinds of frames: a worker's own numbers, and its share of the result."""

SHARED_FROM_BYTES = 64 << 10
"""From this size on more than two workers share the work."""

_WIDER = {"float16": np.float32, "bfloat16": np.float32}
"""What is summed in another dtype: as on the way to a result of one rounding."""


def sum_arrays(mesh: HostMesh, arrays: Sequence[NDArray], totals: Sequence[NDArray]) -> None:
    """Sums arrays over the workers of the host, all of which call this with the same sizes.

    Args:
        mesh: The links between the workers.
        arrays: Of one dtype of numbers and one dimension, contiguous.
        totals: Where the sums go; of the same sizes and dtype. They may be the arrays themselves.

    Raises:
        WorkerFailedError: Another worker has ended.
        UsageError: Another worker is in another exchange.
    """
    _Sum(mesh, arrays, totals).run()


def gather_arrays(mesh: HostMesh, array: NDArray) -> list[NDArray]:
    """The arrays of all workers of the host, in their order; of one dtype and one dimension, each of any size.

    Raises:
        WorkerFailedError: Another worker has ended.
        UsageError: Another worker is in another exchange.
    """
    sizes = np.zeros(mesh.count, np.int64)
    sizes[mesh.rank] = array.size
    sum_arrays(mesh, [sizes], [sizes])
    gathered = [array if rank == mesh.rank else np.empty(size, array.dtype) for rank, size in enumerate(sizes)]
    mesh.begin(f"gather {array.dtype}")
    frames = [frames_of([int(size)], FRAME_BYTES // array.dtype.itemsize) for size in sizes]
    count = max(map(len, frames))
    writing = _Frames(mesh, [array])
    for number in range(count):
        writing.write_until(number + 2, count)
        mesh.wait()
        for rank, pieces in enumerate(frame[number] if number < len(frame) else [] for frame in frames):
            if rank != mesh.rank:
                for piece in pieces:
                    read = mesh.slot(rank, PART, mesh.frame + number, array.dtype)[piece.place : piece.place_stop]
                    gathered[rank][piece.start : piece.stop] = read
    mesh.frame += count
    return gathered


def copy_arrays(mesh: HostMesh, arrays: Sequence[NDArray], copies: Sequence[NDArray]) -> None:
    """Copies the arrays of the first worker of the host to the others, all of which call this with the same sizes.

    Args:
        mesh: The links between the workers.
        arrays: Of one dtype and one dimension; those of other workers than the first only say the sizes.
        copies: Where the copies go, on the other workers; of the same sizes and dtype.

    Raises:
        WorkerFailedError: Another worker has ended.
        UsageError: Another worker is in another exchange.
    """
    mesh.begin(f"copy {sizes_text(arrays)}")
    writing = _Frames(mesh, arrays, has_content=mesh.rank == 0)
    count = len(writing.frames)
    for number, pieces in enumerate(writing.frames):
        writing.write_until(number + 2, count)
        mesh.wait()
        if mesh.rank:
            frame = mesh.slot(0, PART, mesh.frame + number, arrays[0].dtype)
            for piece in pieces:
                copies[piece.array][piece.start : piece.stop] = frame[piece.place : piece.place_stop]
    mesh.frame += count


class _Frames:
    """A worker's own numbers, written frame by frame."""

    def __init__(self, mesh: HostMesh, arrays: Sequence[NDArray], *, has_content: bool = True) -> None:
        self._mesh = mesh
        self._arrays = arrays
        self._has_content = has_content
        self._dtype = arrays[0].dtype
        self.frames = frames_of([array.size for array in arrays], FRAME_BYTES // self._dtype.itemsize)
        self._written = 0

    def write_until(self, number: int, count: int) -> None:
        """Writes the frames before `number` of `count` that are not yet written, and tells the others of each."""
        while self._written < min(number, count):
            if self._has_content and self._written < len(self.frames):
                slot = self._mesh.slot(self._mesh.rank, PART, self._mesh.frame + self._written, self._dtype)
                for piece in self.frames[self._written]:
                    slot[piece.place : piece.place_stop] = self._arrays[piece.array][piece.start : piece.stop]
            self._written += 1
            self._mesh.tell()


class _Sum:
    """One sum of arrays."""

    def __init__(self, mesh: HostMesh, arrays: Sequence[NDArray], totals: Sequence[NDArray]) -> None:
        self._mesh = mesh
        self._totals = totals
        self._dtype = arrays[0].dtype
        self._wider = _WIDER.get(self._dtype.name)
        self._own = _Frames(mesh, arrays)
        mesh.begin(f"sum {sizes_text(arrays)}")
        self._is_shared = mesh.count > 2 and sum(array.nbytes for array in arrays) >= SHARED_FROM_BYTES

    def run(self) -> None:
        count = len(self._own.frames)
        for number, pieces in enumerate(self._own.frames):
            self._own.write_until(number + 2, count)
            self._mesh.wait()
            if self._is_shared:
                self._sum_share(number, pieces)
                self._mesh.tell()
                if number:
                    self._read_shares(number - 1)
            else:
                for piece in pieces:
                    self._sum(number, slice(piece.place, piece.place_stop), self._place_of(piece))
        if self._is_shared:
            self._read_shares(count - 1)
        self._mesh.frame += count

    def _sum_share(self, number: int, pieces: Sequence[Piece]) -> None:
        own = share(_size_of(pieces), self._mesh.rank, self._mesh.count)
        self._sum(number, own, self._slot(self._mesh.rank, RESULT, number)[own])

    def _read_shares(self, number: int) -> None:
        self._mesh.wait()
        pieces = self._own.frames[number]
        for rank in range(self._mesh.count):
            result = self._slot(rank, RESULT, number)
            for piece in pieces_within(pieces, share(_size_of(pieces), rank, self._mesh.count)):
                self._place_of(piece)[:] = result[piece.place : piece.place_stop]

    def _sum(self, number: int, part: slice, total: NDArray) -> None:
        """Sums a part of a frame over all workers, in their order."""
        first, second, *others = (self._slot(rank, PART, number)[part] for rank in range(self._mesh.count))
        if self._wider is None:
            np.add(first, second, out=total)
            for other in others:
                np.add(total, other, out=total)
        else:
            wide = first.astype(self._wider)
            for other in (second, *others):
                wide += other.astype(self._wider)
            total[:] = wide

    def _slot(self, rank: int, kind: int, number: int) -> NDArray:
        return self._mesh.slot(rank, kind, self._mesh.frame + number, self._dtype)

    def _place_of(self, piece: Piece) -> NDArray:
        return self._totals[piece.array][piece.start : piece.stop]


def _size_of(pieces: Sequence[Piece]) -> int:
    return pieces[-1].place_stop if pieces else 0
