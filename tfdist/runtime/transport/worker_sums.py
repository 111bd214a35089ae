"""Sums of integers over the workers, outside of functions."""

from __future__ import annotations

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from tfdist.runtime.strategy_settings import settings_of
from tfdist.runtime.transport.ring_all_reduce import sum_now
from tfdist.runtime.transport.shared_memory.shared_memory_sums import SharedMemorySums
from tfdist.runtime.workers import worker_count


def sum_over_workers(integers: NDArray[np.int32], strategy: tf.distribute.Strategy) -> NDArray[np.int32]:
    """The sum of an array over the workers; call it outside of functions, on every worker, with one shape on all.

    Workers with other shapes would wait for each other, or be refused.
    """
    workers, sums = worker_count(strategy), settings_of(strategy).sums
    if workers == 1:
        return integers
    return sums.sum_now(integers) if isinstance(sums, SharedMemorySums) else sum_now(integers, workers)
