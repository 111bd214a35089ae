"""Reduce-scatter and all-gather of arrays of which each worker of a host has, or wants, one shard alone.

Frames are written and read as in `array_exchange`, and sums are taken in the order of the workers: a shard of a sum has
the bits that the full sum has there.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tfdist.runtime.transport.shared_memory.array_exchange import (
    PART,
    WrittenFrames,
    exchanged,
    reduce_parts,
    wider_than,
)
from tfdist.runtime.transport.shared_memory.frame_layout import frames_of
from tfdist.runtime.transport.shared_memory.host_mesh import HostMesh, contract_of

Bounds = Sequence[int]
"""The bounds of the workers' shards of an array: where each begins, in their order, and where the last one ends."""


def reduce_scatter(
    mesh: HostMesh, arrays: Sequence[NDArray], bounds: Sequence[Bounds], totals: Sequence[NDArray]
) -> None:
    """Sums arrays over the workers of the host; each of them gets its shard of every sum (reduce-scatter).

    Args:
        mesh: The links between the workers.
        arrays: Of one dtype of numbers and one dimension, contiguous; of the same sizes on all workers.
        bounds: How each of them is cut, the same on all workers.
        totals: Where this worker's shards of the sums go; of the sizes of its shards and the same dtype.

    Raises:
        WorkerFailedError: Another worker has ended.
        UsageError: Another worker is in another exchange.
    """
    dtype = arrays[0].dtype
    wider = wider_than(dtype)
    spans = [(bound[mesh.rank], bound[mesh.rank + 1]) for bound in bounds]
    mesh.begin(contract_of("sum of parts", dtype, tuple(array.size for array in arrays)))
    writing = WrittenFrames(mesh, arrays)
    for number in exchanged(mesh, writing, len(writing.frames)):
        slots = [mesh.slot(rank, PART, mesh.frame + number, dtype) for rank in mesh.ranks]
        for piece in writing.frames[number]:
            begin, end = spans[piece.array]
            start, stop = max(piece.start, begin), min(piece.stop, end)
            if start < stop:
                moved = piece.place - piece.start
                parts = [slot[start + moved : stop + moved] for slot in slots]
                reduce_parts(parts, totals[piece.array][start - begin : stop - begin], np.add, wider)


def all_gather(
    mesh: HostMesh, shards: Sequence[NDArray], bounds: Sequence[Bounds], gathered: Sequence[NDArray]
) -> None:
    """Puts arrays together of which each worker of the host has a shard (all-gather).

    Args:
        mesh: The links between the workers.
        shards: This worker's, of one dtype and one dimension, contiguous.
        bounds: How each array is cut, the same on all workers.
        gathered: Where the arrays go; of the same dtype.

    Raises:
        WorkerFailedError: Another worker has ended.
        UsageError: Another worker is in another exchange.
    """
    dtype = shards[0].dtype
    for shard, bound, full in zip(shards, bounds, gathered, strict=True):
        full[bound[mesh.rank] : bound[mesh.rank + 1]] = shard
    mesh.begin(contract_of("join of parts", dtype, tuple(full.size for full in gathered)))
    room = mesh.frame_bytes // dtype.itemsize
    frames = [frames_of(tuple(bound[rank + 1] - bound[rank] for bound in bounds), room) for rank in mesh.ranks]
    for number in exchanged(mesh, WrittenFrames(mesh, shards), max(map(len, frames))):
        for rank in mesh.ranks:
            if rank == mesh.rank or number >= len(frames[rank]):
                continue
            slot = mesh.slot(rank, PART, mesh.frame + number, dtype)
            for piece in frames[rank][number]:
                begin = bounds[piece.array][rank]
                gathered[piece.array][begin + piece.start : begin + piece.stop] = slot[piece.place : piece.place_stop]
