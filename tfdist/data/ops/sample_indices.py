"""Numbers of the samples that some replicas read, batch by batch, in tf.data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from tfdist.data.ops.python_functions import CountedCalls, call_python
from tfdist.order.epoch_order import EpochSteps
from tfdist.order.epoch_span import EpochSpan
from tfdist.order.per_worker_order import SampleOrder, WorkerShareSteps
from tfdist.runtime.batches.dataset_description import EpochCounter

BLOCK_SAMPLES = 1 << 14
"""Samples whose numbers are computed in one call of Python: enough to make the call's own cost small."""

BLOCK_BATCHES = 1 << 10

_ROWS = tf.TensorSpec([None], tf.int64)


@dataclass(frozen=True)
class SampleIndices:
    """The numbers of the samples in the batches of some replicas.

    Batches go step by step from `first_step` on, and within a step in the order of `replica_ids`. Each iterator of a
    dataset made here takes the next of `epochs`. Whatever the first step, nothing before it is computed.

    Attributes:
        order: The order of the samples.
        steps: Which places of the order are whose in each step of a pass over the samples.
        span: Which steps of which passes an epoch takes.
        replica_ids: The replicas.
        first_step: Counted from 0.
        epochs: Counts the epochs that iterators begin.
        stands_in: Whether a batch without samples has sample 0 instead, which any worker can read at any time, to stand
            in for those of its replica.
    """

    order: SampleOrder
    steps: EpochSteps | WorkerShareSteps
    span: EpochSpan
    replica_ids: Sequence[int]
    first_step: int
    epochs: EpochCounter
    stands_in: bool = False

    @property
    def largest(self) -> int:
        """The number of samples in the largest batch; 0 where these replicas have none and nothing stands in."""
        return max(self.steps.largest_piece(self.replica_ids), int(self.stands_in))

    def batches(self) -> tf.data.Dataset:
        """A dataset of the numbers of the samples of each batch, int64 [k], where k may change and may be 0."""
        return self._cut(lambda epoch, numbers: numbers, tf.TensorSpec([None], tf.int64))

    def seeds(self) -> tf.data.Dataset:
        """A dataset of the seeds of those samples, int32 [k, 2]; see `SampleOrder.sample_seeds`."""

        return self._cut(self.order.sample_seeds, tf.TensorSpec([None, 2], tf.int32))

    def filled(self) -> tf.data.Dataset:
        """A dataset of the numbers of each batch, filled up to the size of the largest.

        It is filled up with its first sample or, where it is empty, with sample 0: so an empty batch has the shape of
        the others.

        Returns:
            Pairs of the numbers, int64 [max(largest, 1)], and how many of them are in the batch, a scalar int64.
        """
        width = max(self.largest, 1)

        def filled(number: int, pieces: NDArray[np.int64]) -> list[NDArray]:
            sizes, samples = self._samples(number, pieces)
            belongs = np.arange(width) < sizes[:, np.newaxis]
            numbers = np.zeros(belongs.shape, np.int64)
            numbers[belongs] = samples
            return [np.where(belongs, numbers, numbers[:, :1]), sizes]

        return self._each(filled, [tf.TensorSpec([None, width], tf.int64), _ROWS], _rows)

    def _cut(
        self, values_of: Callable[[int, NDArray[np.int64]], NDArray], spec: tf.TensorSpec
    ) -> tf.data.Dataset:
        """A dataset of what `values_of` gives for a pass and the numbers of the samples of each batch."""

        def values(number: int, pieces: NDArray[np.int64]) -> list[NDArray]:
            sizes, samples = self._samples(number, pieces)
            return [values_of(number, samples), sizes]

        return self._each(values, [spec, _ROWS], _cut)

    def _samples(self, number: int, pieces: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The sizes of batches of a pass, [n], and the numbers of the samples in them, one batch after another."""
        sizes, places = _places(pieces)
        samples = self.order.at(number, places)
        if not self.stands_in:
            return sizes, samples
        return np.maximum(sizes, 1), np.insert(samples, (np.cumsum(sizes) - sizes)[sizes == 0], 0)

    def _each(
        self,
        block_of: Callable[[int, NDArray[np.int64]], list[NDArray]],
        specs: Sequence[tf.TensorSpec],
        cut: Callable[..., tf.data.Dataset],
    ) -> tf.data.Dataset:
        """A dataset of what `block_of` gives for a pass and the pieces of many batches of it, cut into batches."""
        each = len(self.replica_ids)
        per_block = max(1, min(BLOCK_SAMPLES // max(self.largest * each, 1), BLOCK_BATCHES // each))
        take_epoch = self.epochs.part()

        def block_at(epoch: NDArray[np.int64], first: NDArray[np.int64]) -> list[NDArray]:
            last = min(int(first) + per_block, len(self.span))
            blocks = [
                block_of(number, self.steps.pieces(begin, end, self.replica_ids))
                for number, begin, end in self.span.passes(int(epoch), int(first), last)
            ]
            return blocks[0] if len(blocks) == 1 else list(map(np.concatenate, zip(*blocks, strict=True)))

        next_epoch = CountedCalls(lambda: [np.int64(take_epoch())])
        next_block = CountedCalls(block_at)

        def of_epoch(_: tf.Tensor) -> tf.data.Dataset:
            (epoch,) = call_python(next_epoch, [], [tf.TensorSpec([], tf.int64)])
            blocks = tf.data.Dataset.range(self.first_step, len(self.span), per_block)
            values = blocks.map(lambda first: call_python(next_block, [epoch, first], specs))
            return values.prefetch(1).flat_map(cut)

        return tf.data.Dataset.from_tensors(0).flat_map(of_epoch)


def _places(pieces: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The sizes of pieces of an epoch, [n], and all places in them, one piece after another."""
    sizes = pieces[:, 1] - pieces[:, 0]
    ends = np.cumsum(sizes)
    return sizes, np.repeat(pieces[:, 0] - (ends - sizes), sizes) + np.arange(ends[-1])


def _rows(*blocks: tf.Tensor) -> tf.data.Dataset:
    return tf.data.Dataset.from_tensor_slices(blocks)


def _cut(values: tf.Tensor, sizes: tf.Tensor) -> tf.data.Dataset:
    ends = tf.cumsum(sizes)
    bounds = tf.stack([ends - sizes, ends], axis=1)
    return tf.data.Dataset.from_tensor_slices(bounds).map(lambda piece: values[piece[0] : piece[1]])
