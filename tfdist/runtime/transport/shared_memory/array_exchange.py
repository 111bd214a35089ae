"""Reductions and copies of arrays between the workers of a host, through frames in shared memory.

Each worker writes its arrays frame by frame, one frame ahead of the one that it reads, and tells the others after each.
While it reads frame n it has written n + 1, and the others, which may be a frame ahead, write n + 2 at most: so a place
that is used again after `SLOTS` frames is never written while somebody still reads it.

Two workers, or any number where there is little to sum, read what all have written, and sum it themselves. Otherwise
each sums its share of a frame, writes that, and reads the others' (reduce-scatter, then all-gather), as in Patarasuk
and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations", 2009. Either way a number is summed in
the order of the workers: all of them get the same bits, in every run.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from tfdist.runtime.transport.shared_memory.frame_layout import Piece, frames_of, pieces_of, pieces_within, share
from tfdist.runtime.transport.shared_memory.host_mesh import HostMesh, contract_of

PART, RESULT = range(2)
"""The kinds of frames: a worker's own numbers, and its share of the result."""

SHARED_FROM_BYTES = 64 << 10
"""From this size on more than two workers share the work."""

Reduction = Literal["sum", "product", "max", "min"]
_FUNCTIONS: dict[Reduction, np.ufunc] = {"sum": np.add, "product": np.multiply, "max": np.maximum, "min": np.minimum}


def reduce_arrays(
    mesh: HostMesh, arrays: Sequence[NDArray], totals: Sequence[NDArray], reduction: Reduction = "sum"
) -> None:
    """Reduces arrays over the workers of the host, all of which call this with the same sizes.

    Args:
        mesh: The links between the workers.
        arrays: Of one dtype of numbers and one dimension, contiguous.
        totals: Where the results go; of the same sizes and dtype. They may be the arrays themselves.
        reduction: What is taken of them.

    Raises:
        WorkerFailedError: Another worker has ended.
        UsageError: Another worker is in another exchange.
    """
    _Reduction(mesh, arrays, totals, reduction).run()


def gather_arrays(
    mesh: HostMesh, arrays: Sequence[NDArray], take: Callable[[int, np.dtype], NDArray] = np.empty
) -> list[NDArray]:
    """For each array the elements of those of all workers of the host, one after another in the workers' order.

    Args:
        mesh: The links between the workers.
        arrays: Of one dimension, each of any size and dtype; all workers have as many, of the same dtypes.
        take: Returns memory for so many elements of a dtype.

    Raises:
        WorkerFailedError: Another worker has ended.
        UsageError: Another worker is in another exchange.
    """
    sizes = np.zeros((mesh.count, len(arrays)), np.int64)
    sizes[mesh.rank] = [array.size for array in arrays]
    reduce_arrays(mesh, [sizes.reshape(-1)], [sizes.reshape(-1)])
    return [
        _gathered(mesh, array, of_array, take(sum(of_array), array.dtype))
        for array, of_array in zip(arrays, sizes.T.tolist(), strict=True)
    ]


def _gathered(mesh: HostMesh, array: NDArray, sizes: Sequence[int], gathered: NDArray) -> NDArray:
    begins = list(itertools.accumulate(sizes, initial=0))
    gathered[begins[mesh.rank] : begins[mesh.rank + 1]] = array
    mesh.begin(contract_of("gather", array.dtype))
    frames = [frames_of((size,), mesh.frame_bytes // array.dtype.itemsize) for size in sizes]
    count = max(map(len, frames))
    for number in exchanged(mesh, WrittenFrames(mesh, [array]), count):
        for rank in _others(mesh):
            for piece in frames[rank][number] if number < len(frames[rank]) else ():
                start, stop = begins[rank] + piece.start, begins[rank] + piece.stop
                gathered[start:stop] = _read(mesh, rank, number, piece, array.dtype)
    return gathered


def deal_array(mesh: HostMesh, array: NDArray, dealt: NDArray) -> None:
    """Gives each worker of the host its part of the arrays of all.

    Args:
        mesh: The links between the workers.
        array: Of one dimension; as many parts of one size as there are workers. All have arrays of one size and dtype.
        dealt: Where this worker's parts go, in the workers' order; of the same size and dtype.

    Raises:
        WorkerFailedError: Another worker has ended.
        UsageError: Another worker is in another exchange.
    """
    size = array.size // mesh.count
    start = mesh.rank * size
    dealt[start : start + size] = array[start : start + size]
    mesh.begin(contract_of("all_to_all", array.dtype, (array.size,)))
    writing = WrittenFrames(mesh, [array])
    for number in exchanged(mesh, writing, len(writing.frames)):
        own = list(pieces_of(writing.frames[number], slice(start, start + size)))
        for rank in _others(mesh):
            moved = (rank - mesh.rank) * size
            for piece in own:
                dealt[piece.start + moved : piece.stop + moved] = _read(mesh, rank, number, piece, array.dtype)


def copy_arrays(mesh: HostMesh, arrays: Sequence[NDArray], copies: Sequence[NDArray], root: int = 0) -> None:
    """Copies the arrays of one worker of the host to the others, all of which call this with the same sizes.

    Args:
        mesh: The links between the workers.
        arrays: Of one dtype and one dimension; those of other workers than the root only say the sizes.
        copies: Where the copies go, on the other workers; of the same sizes and dtype.
        root: The rank of the worker whose arrays are copied.

    Raises:
        WorkerFailedError: Another worker has ended.
        UsageError: Another worker is in another exchange.
    """
    mesh.begin(contract_of(f"copy of rank {root}", arrays[0].dtype, _sizes_of(arrays)))
    writing = WrittenFrames(mesh, arrays, has_content=mesh.rank == root)
    for number in exchanged(mesh, writing, len(writing.frames)):
        for piece in writing.frames[number] if mesh.rank != root else ():
            copies[piece.array][piece.start : piece.stop] = _read(mesh, root, number, piece, arrays[0].dtype)


def exchanged(mesh: HostMesh, writing: WrittenFrames, count: int) -> Iterator[int]:
    """The numbers of the frames, each when all workers have written it and until it is read."""
    for number in range(count):
        writing.write_until(number + 2, count)
        mesh.wait()
        yield number
    mesh.frame += count


def _others(mesh: HostMesh) -> Iterator[int]:
    return (rank for rank in mesh.ranks if rank != mesh.rank)


def _read(mesh: HostMesh, rank: int, number: int, piece: Piece, dtype: np.dtype) -> NDArray:
    return mesh.slot(rank, PART, mesh.frame + number, dtype)[piece.place : piece.place_stop]


class WrittenFrames:
    """A worker's own numbers, written frame by frame."""

    def __init__(self, mesh: HostMesh, arrays: Sequence[NDArray], *, has_content: bool = True) -> None:
        self._mesh = mesh
        self._arrays = arrays
        self._has_content = has_content
        self._dtype = arrays[0].dtype
        self.frames = frames_of(_sizes_of(arrays), mesh.frame_bytes // self._dtype.itemsize)
        self._written = 0

    def write_until(self, number: int, count: int) -> None:
        """Writes the frames before `number` of `count` that are not yet written, and tells the others of each."""
        while self._written < min(number, count):
            if self._has_content and self._written < len(self.frames):
                slot = self._mesh.slot(self._mesh.rank, PART, self._mesh.frame + self._written, self._dtype)
                for array, start, stop, place, place_stop in self.frames[self._written]:
                    slot[place:place_stop] = self._arrays[array][start:stop]
            self._written += 1
            self._mesh.tell()


class _Reduction:
    """One reduction of arrays."""

    def __init__(
        self, mesh: HostMesh, arrays: Sequence[NDArray], totals: Sequence[NDArray], reduction: Reduction
    ) -> None:
        self._mesh = mesh
        self._totals = totals
        self._dtype = arrays[0].dtype
        self._wider = wider_than(self._dtype)
        self._own = WrittenFrames(mesh, arrays)
        self._function = _FUNCTIONS[reduction]
        mesh.begin(contract_of(reduction, self._dtype, _sizes_of(arrays)))
        self._is_shared = mesh.count > 2 and sum(array.nbytes for array in arrays) >= SHARED_FROM_BYTES

    def run(self) -> None:
        count = len(self._own.frames)
        for number, pieces in enumerate(self._own.frames):
            self._own.write_until(number + 2, count)
            self._mesh.wait()
            if self._is_shared:
                self._reduce_share(number, pieces)
                self._mesh.tell()
                if number:
                    self._read_shares(number - 1)
            else:
                slots = self._slots_of_all(number)
                for array, start, stop, place, place_stop in pieces:
                    self._reduce([slot[place:place_stop] for slot in slots], self._totals[array][start:stop])
        if self._is_shared:
            self._read_shares(count - 1)
        self._mesh.frame += count

    def _reduce_share(self, number: int, pieces: Sequence[Piece]) -> None:
        own = share(_size_of(pieces), self._mesh.rank, self._mesh.count)
        result = self._slot(self._mesh.rank, RESULT, number)[own]
        self._reduce([slot[own] for slot in self._slots_of_all(number)], result)

    def _read_shares(self, number: int) -> None:
        self._mesh.wait()
        pieces = self._own.frames[number]
        for rank in range(self._mesh.count):
            result = self._slot(rank, RESULT, number)
            for piece in pieces_within(pieces, share(_size_of(pieces), rank, self._mesh.count)):
                self._totals[piece.array][piece.start : piece.stop] = result[piece.place : piece.place_stop]

    def _reduce(self, parts: Sequence[NDArray], total: NDArray) -> None:
        reduce_parts(parts, total, self._function, self._wider)

    def _slots_of_all(self, number: int) -> list[NDArray]:
        return [self._slot(rank, PART, number) for rank in range(self._mesh.count)]

    def _slot(self, rank: int, kind: int, number: int) -> NDArray:
        return self._mesh.slot(rank, kind, self._mesh.frame + number, self._dtype)


def reduce_parts(
    parts: Sequence[NDArray], total: NDArray, function: np.ufunc, wider: type[np.floating] | None
) -> None:
    """Reduces the parts of all workers into `total`, in their order.

    Args:
        parts: Those of at least two workers, of one size and dtype.
        total: Of the same size and dtype.
        function: The reduction of two.
        wider: `wider_than` their dtype.
    """
    first, second, *others = parts
    if wider is None:
        function(first, second, out=total)
        for other in others:
            function(total, other, out=total)
    else:
        wide = first.astype(wider)
        for other in (second, *others):
            function(wide, other.astype(wider), out=wide)
        total[:] = wide


@functools.cache
def wider_than(dtype: np.dtype) -> type[np.floating] | None:
    """The dtype in which numbers of this one are reduced, on the way to a result of one rounding; None for itself."""
    return np.float32 if dtype.name in ("float16", "bfloat16") else None


def _sizes_of(arrays: Sequence[NDArray]) -> tuple[int, ...]:
    return tuple(array.size for array in arrays)


def _size_of(pieces: Sequence[Piece]) -> int:
    return pieces[-1].place_stop if pieces else 0
