"""All-gather of arrays that are cut over the workers, in host memory, outside of functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from tfdist.runtime.collectives.chief_broadcast import PIECE_BYTES
from tfdist.runtime.collectives.decisions import all_gather
from tfdist.runtime.strategy_settings import settings_of
from tfdist.runtime.transport.shared_memory.output_buffers import aligned_bytes, is_aligned
from tfdist.runtime.workers import worker_count, worker_rank
from tfdist.sharding.cut import Cut


def all_gather_array(
    shard: NDArray, cut: Cut, strategy: tf.distribute.Strategy, group: Sequence[int] | None = None
) -> NDArray:
    """The full array, of the shape of the cut, of which each worker gives its shard; all workers call this together.

    Args:
        shard: This worker's.
        cut: How a group shares the array.
        strategy: Of all workers.
        group: One that has all shards, the same on all workers; None for the first workers.
    """
    shard = np.ascontiguousarray(shard).reshape(-1)
    if cut.workers == 1:
        return shard.reshape(cut.shape)
    workers = worker_count(strategy)
    if cut.workers < workers:
        # Groups of workers have the same.
        group = range(cut.workers) if group is None else group
        shard = shard if worker_rank(strategy) in group else shard[:0]
        cut = cut.among(workers, group)
    memory = settings_of(strategy).memory
    found = empty_for_tensor(cut.size, shard.dtype)
    if memory is not None:
        memory.of_functions.all_gather_now(shard, cut.bounds, found)
        return found.reshape(cut.shape)
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


def empty_for_tensor(size: int, dtype: np.dtype) -> NDArray:
    """An array of any values and of one dimension, whose memory `as_tensor` can take over."""
    return aligned_bytes(size * dtype.itemsize).view(dtype)


_OF_NUMPY = "biufc"
"""The kinds of dtypes that are NumPy's own; bfloat16 is none."""


def as_tensor(array: NDArray) -> tf.Tensor:
    """A tensor in host memory with the memory of an array, which nobody changes any more.

    `tf.constant` would copy it, twice where it is not aligned: too much for the largest weight of a model. It does copy
    an array that cannot be written to, whose memory is another tensor's, and one that is not aligned as TensorFlow
    wants it.
    """
    if not array.flags.writeable or not is_aligned(array):
        return tf.constant(array)
    is_numpys = array.dtype.kind in _OF_NUMPY
    given = array if is_numpys else array.view(f"u{array.dtype.itemsize}")
    found = tf.experimental.dlpack.from_dlpack(given.__dlpack__())
    return found if is_numpys else tf.bitcast(found, tf.as_dtype(array.dtype))


def as_array(tensor: Any) -> NDArray:
    """The numbers of a tensor or a variable outside of functions, those in host memory themselves: not to be changed.

    `numpy()` would copy them. What lies elsewhere, as on a GPU or on a disk, is asked for them: `numpy()` is code of
    TensorFlow's, in which the watchdog sees who waits.
    """
    value = tensor.read_value() if isinstance(tensor, tf.Variable) else tensor
    if not isinstance(value, tf.Tensor) or tf.DeviceSpec.from_string(value.device).device_type != "CPU":
        return np.asarray(value.numpy())
    dtype = np.dtype(value.dtype.as_numpy_dtype)
    if dtype.kind in _OF_NUMPY:
        return np.asarray(memoryview(value))
    return np.asarray(memoryview(tf.bitcast(value, f"uint{8 * dtype.itemsize}"))).view(dtype)
