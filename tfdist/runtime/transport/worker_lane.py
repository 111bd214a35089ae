"""The lanes of workers for collectives that tfdist itself runs inside of steps, and between them."""

from __future__ import annotations

import functools

import tensorflow as tf

from tfdist.runtime.collectives.wire.engine import Channel
from tfdist.runtime.collectives.wire.groups import Lanes
from tfdist.runtime.workers import worker_count, worker_rank


def channel_of(
    carried: str, dtype: tf.DType, size: int | tf.Tensor, among: tuple[int, ...] | None = None
) -> Channel:
    """The channel of a primitive among workers, by what it carries; in a function or outside.

    Args:
        carried: What, in words, the same on all workers.
        dtype: Of its elements.
        size: How many there are, the same on all workers.
        among: The workers, ascending; None for all.
    """
    strategy = tf.distribute.get_strategy()
    workers = worker_count(strategy)
    lane = _lanes(worker_rank(strategy), workers).of(tuple(range(workers)) if among is None else among)
    return lane.traced_channel(f"{carried} {dtype.name}", size)


@functools.cache
def _lanes(worker: int, workers: int) -> Lanes:
    return Lanes(worker, workers)
