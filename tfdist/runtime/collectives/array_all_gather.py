"""All-gather of arrays that are cut over the workers, in host memory, outside of functions."""

from __future__ import annotations

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from tfdist.runtime.collectives.chief_broadcast import PIECE_BYTES
from tfdist.runtime.collectives.decisions import all_gather
from tfdist.runtime.strategy_settings import settings_of
from tfdist.runtime.workers import worker_count, worker_rank
from tfdist.sharding.cut import Cut


def all_gather_array(shard: NDArray, cut: Cut, strategy: tf.distribute.Strategy) -> NDArray:
    """The full array, of the shape of the cut, of which each worker gives its shard; all workers call this together."""
    shard = np.ascontiguousarray(shard).reshape(-1)
    if cut.workers == 1:
        return shard.reshape(cut.shape)
    workers = worker_count(strategy)
    if cut.workers < workers:
        # Groups of workers have the same; the first is that of the first workers.
        shard = shard if worker_rank(strategy) < cut.workers else shard[:0]
        cut = cut.among(workers)
    memory = settings_of(strategy).memory
    if memory is not None:
        (full,) = memory.of_functions.all_gather([tf.constant(shard)], [cut.bounds])
        return np.asarray(full.numpy()).reshape(cut.shape)
    found = np.empty(cut.size, shard.dtype)
    room = max(1, PIECE_BYTES // shard.dtype.itemsize)
    for start in range(0, cut.largest_shard, room):
        piece = np.zeros(min(room, cut.largest_shard - start), shard.dtype)
        mine = shard[start : start + room]
        piece[: mine.size] = mine
        for worker, row in enumerate(all_gather(piece.view(np.uint8), strategy)):
            begin, end = cut.span(worker)
            there = found[begin:end][start : start + room]
            there[:] = row.view(shard.dtype)[: there.size]
    return found.reshape(cut.shape)
