"""Arrays put together of the parts that the workers hold, in host memory, outside of functions."""

from __future__ import annotations

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from tfdist.runtime.collectives.chief_broadcast import PIECE_BYTES
from tfdist.runtime.collectives.decisions import all_gather
from tfdist.runtime.strategy_settings import settings_of
from tfdist.runtime.workers import worker_count, worker_rank
from tfdist.sharding.cut import Cut


def joined_array(part: NDArray, cut: Cut, strategy: tf.distribute.Strategy) -> NDArray:
    """The whole, of the shape of the cut, of which each worker gives its part; all workers call this together."""
    part = np.ascontiguousarray(part).reshape(-1)
    if cut.workers == 1:
        return part.reshape(cut.shape)
    workers = worker_count(strategy)
    if cut.workers < workers:
        # Groups of workers have the same; the first is that of the first workers.
        part = part if worker_rank(strategy) < cut.workers else part[:0]
        cut = cut.among(workers)
    memory = settings_of(strategy).memory
    if memory is not None:
        (whole,) = memory.of_functions.join_parts([tf.constant(part)], [cut.bounds])
        return np.asarray(whole.numpy()).reshape(cut.shape)
    found = np.empty(cut.size, part.dtype)
    room = max(1, PIECE_BYTES // part.dtype.itemsize)
    for start in range(0, cut.largest_part, room):
        piece = np.zeros(min(room, cut.largest_part - start), part.dtype)
        mine = part[start : start + room]
        piece[: mine.size] = mine
        for worker, row in enumerate(all_gather(piece.view(np.uint8), strategy)):
            begin, end = cut.span(worker)
            there = found[begin:end][start : start + room]
            there[:] = row.view(part.dtype)[: there.size]
    return found.reshape(cut.shape)
