"""Datasets of some batches each, of which every one goes on where the one before it has ended."""

from __future__ import annotations

from typing import Any

import tensorflow as tf
from tensorflow.python.framework import tensor_util
from tensorflow.python.ops import gen_dataset_ops

from tfdist.runtime.batches.replica_batches import no_autotune_options, no_debug_mode

_SKIPPED = ("_OptionsDataset", "_AssertNextDataset", "_IgnoreErrorsDataset")

_PARALLEL = ("_ParallelMapDataset", "_ParallelBatchDataset", "_ParallelInterleaveDataset")
"""What reads ahead by itself: TensorFlow prefetches nothing after them."""


class ContinuedBatches:
    """The batches of a dataset, some at a time.

    TensorFlow's iterators over several replicas read ahead. Where an epoch takes some batches of data that goes on,
    what is read beyond them is lost, and may begin a pass over a shuffled dataset too early: all iterators over that
    share its seeds, and the next one shuffles otherwise. Beyond a part about as many are read as one device
    reads beyond what it takes.

    Args:
        whole: The dataset as one device iterates over it.
    """

    def __init__(self, whole: tf.data.Dataset) -> None:
        self._whole = whole
        self._source: Any = None
        self._batches: Any = None
        self._parts: dict[int, tf.data.Dataset] = {}

    def part(self, dataset: tf.data.Dataset, steps: int) -> tf.data.Dataset:
        """A dataset of the next `steps` batches, whenever it is iterated over; of fewer where they end before.

        Args:
            dataset: The whole one or what of it is needed here, of the same batches; it is drawn from the first one.
            steps: How many.
        """
        if steps not in self._parts:
            with tf.device("CPU:0"), no_debug_mode():
                if self._batches is None:
                    ahead = _read_ahead(self._whole, itself=dataset is self._whole)
                    self._source = dataset.prefetch(ahead) if ahead else dataset
                    self._source = self._source.with_options(no_autotune_options())
                    self._batches = iter(self._source)
                self._parts[steps] = self._next(steps)
        return self._parts[steps]

    def restart(self) -> None:
        """Has the next part begin with the first batch, as a new iterator over the dataset does."""
        if self._batches is not None:
            gen_dataset_ops.make_iterator(self._source._variant_tensor, self._batches._iterator_resource)

    def _next(self, steps: int) -> tf.data.Dataset:
        batches = self._batches
        drawn = tf.data.Dataset.range(steps).map(lambda _: batches.get_next_as_optional())
        return drawn.take_while(lambda batch: batch.has_value()).map(lambda batch: batch.get_value())


def _read_ahead(dataset: tf.data.Dataset, *, itself: bool) -> int:
    """How many batches TensorFlow reads ahead where it tunes and optimizes a pipeline, and does not where it is not to:
    one at the end of a pipeline that is not told to prefetch, and one more of a last map, which it runs in parallel.

    On one device it is one or two more or less by chance and by how TensorFlow's tuner finds the times; see
    `tests/devices/test_device_iterators.py`.

    Args:
        dataset: As the user made it.
        itself: Whether it is what is iterated over, and what it prefetches need not be counted.
    """
    options, last = dataset.options(), dataset
    while type(last).__name__ in _SKIPPED:
        (last,) = last._inputs()
    if type(last).__name__ == "_PrefetchDataset":
        return 0 if itself else max(1, int(tensor_util.constant_value(last._buffer_size) or 1))
    if _is_parallel(last):
        return 0 if itself else 1
    if options.experimental_optimization.inject_prefetch is False or options.autotune.enabled is False:
        return 0
    return 2 if type(last).__name__ == "_MapDataset" else 1


def _is_parallel(dataset: tf.data.Dataset) -> bool:
    """Whether it reads ahead by itself; TensorFlow fuses a batch of a parallel map into one operation."""
    kind = type(dataset).__name__
    if kind == "_BatchDataset":
        return any(type(source).__name__ == "_ParallelMapDataset" for source in dataset._inputs())
    return kind in _PARALLEL
