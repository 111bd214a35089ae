"""The numbers of the samples that some replicas read, batch by batch, in tf.data."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from tfdist.data.python_calls import CountedCalls, call_python
from tfdist.order.epoch import Steps
from tfdist.order.shares import SampleOrder, ShareSteps
from tfdist.runtime.feeding import Epochs

BLOCK_SAMPLES = 1 << 14
"""Samples whose numbers are computed in one call of Python: enough to make the call's own cost small."""

BLOCK_BATCHES = 1 << 10


def sample_numbers(
    order: SampleOrder, steps: Steps | ShareSteps, replica_ids: Sequence[int], first_step: int, epochs: Epochs
) -> tf.data.Dataset:
    """A dataset of the numbers of the samples of each batch, int64 [k].

    Batches go step by step from `first_step` on, and within a step in the order of `replica_ids`. Each iterator takes
    the next of `epochs`. Whatever the first step, nothing before it is computed.
    """
    return _batches(order.at, tf.TensorSpec([None], tf.int64), steps, replica_ids, first_step, epochs)


def sample_seeds(
    order: SampleOrder, steps: Steps | ShareSteps, replica_ids: Sequence[int], first_step: int, epochs: Epochs
) -> tf.data.Dataset:
    """A dataset of the seeds of those samples, int32 [k, 2]; see `Order.sample_seeds`."""

    def seeds(epoch: int, places: NDArray[np.int64]) -> NDArray[np.int32]:
        return order.sample_seeds(epoch, order.at(epoch, places))

    return _batches(seeds, tf.TensorSpec([None, 2], tf.int32), steps, replica_ids, first_step, epochs)


def _batches(
    values_at: Callable[[int, NDArray[np.int64]], NDArray],
    spec: tf.TensorSpec,
    steps: Steps | ShareSteps,
    replica_ids: Sequence[int],
    first_step: int,
    epochs: Epochs,
) -> tf.data.Dataset:
    """A dataset of what `values_at` gives for an epoch and the places of each batch in it."""
    each = len(replica_ids)
    per_block = max(1, min(BLOCK_SAMPLES // max(steps.largest_piece(replica_ids) * each, 1), BLOCK_BATCHES // each))
    take_epoch = epochs.part()

    def block_of(epoch: NDArray[np.int64], first: NDArray[np.int64]) -> list[NDArray]:
        pieces = steps.pieces(int(first), min(int(first) + per_block, len(steps)), replica_ids)
        sizes = pieces[:, 1] - pieces[:, 0]
        ends = np.cumsum(sizes)
        places = np.repeat(pieces[:, 0] - (ends - sizes), sizes) + np.arange(ends[-1])
        return [values_at(int(epoch), places), np.concatenate([[0], ends])]

    next_epoch = CountedCalls(lambda: [np.int64(take_epoch())])
    next_block = CountedCalls(block_of)
    specs = [spec, tf.TensorSpec([None], tf.int64)]

    def of_epoch(_: tf.Tensor) -> tf.data.Dataset:
        (epoch,) = call_python(next_epoch, [], [tf.TensorSpec([], tf.int64)])
        blocks = tf.data.Dataset.range(first_step, len(steps), per_block)
        return blocks.map(lambda first: call_python(next_block, [epoch, first], specs)).prefetch(1).flat_map(_cut)

    return tf.data.Dataset.from_tensors(0).flat_map(of_epoch)


def _cut(values: tf.Tensor, ends: tf.Tensor) -> tf.data.Dataset:
    bounds = tf.stack([ends[:-1], ends[1:]], axis=1)
    return tf.data.Dataset.from_tensor_slices(bounds).map(lambda piece: values[piece[0] : piece[1]])
