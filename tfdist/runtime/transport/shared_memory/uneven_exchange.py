"""Exchange of parts whose sizes differ from worker to worker, and from call to call (all-to-all of uneven parts)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from tfdist.runtime.transport.shared_memory.array_exchange import PART, WrittenFrames, exchanged, reduce_arrays
from tfdist.runtime.transport.shared_memory.frame_layout import frames_of, pieces_of
from tfdist.runtime.transport.shared_memory.host_mesh import HostMesh, contract_of


def deal_uneven_array(
    mesh: HostMesh, array: NDArray, sizes: NDArray[np.int64], take: Callable[[int, np.dtype], NDArray] = np.empty
) -> tuple[NDArray, NDArray[np.int64]]:
    """Gives each worker of the host its part of the arrays of all, one after another in the workers' order.

    Args:
        mesh: The links between the workers.
        array: Of one dimension, contiguous: a part for each worker, one after another. All have arrays of one dtype.
        sizes: Elements of each part, which may be 0.
        take: Returns memory for so many elements of a dtype.

    Returns:
        This worker's parts, and how many elements came from each worker.

    Raises:
        WorkerFailedError: Another worker has ended.
        UsageError: Another worker is in another exchange.
    """
    table = np.zeros((mesh.count, mesh.count), np.int64)
    table[mesh.rank] = sizes
    reduce_arrays(mesh, [table.reshape(-1)], [table.reshape(-1)])
    came = table[:, mesh.rank].copy()
    ends = np.cumsum(table, axis=1)
    dealt = take(int(came.sum()), array.dtype)
    places = np.cumsum(came) - came
    mesh.begin(contract_of("all_to_all of uneven parts", array.dtype))
    frames = [frames_of((int(rank_ends[-1]),), mesh.frame_bytes // array.dtype.itemsize) for rank_ends in ends]
    for number in exchanged(mesh, WrittenFrames(mesh, [array]), max(map(len, frames))):
        for rank in mesh.ranks:
            if number >= len(frames[rank]):
                continue
            begin = int(ends[rank, mesh.rank] - came[rank])
            moved = int(places[rank]) - begin
            slot = mesh.slot(rank, PART, mesh.frame + number, array.dtype)
            for piece in pieces_of(frames[rank][number], slice(begin, begin + int(came[rank]))):
                dealt[piece.start + moved : piece.stop + moved] = slot[piece.place : piece.place_stop]
    return dealt, came
