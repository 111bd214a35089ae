"""Batches of samples, read from batches of sample numbers in tf.data."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from tfdist.data.ops.python_functions import CountedCalls, call_python
from tfdist.data.ops.sample_indices import SampleIndices


def parallel_parses() -> int:
    """Samples or batches that are parsed at the same time: one for each core that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


LoadSamples = Callable[[tf.Tensor], tuple[tf.Tensor, ...]]
"""In a graph, from the numbers of samples, int64 [k], to tensors [k, ...]."""


Augment = Callable[[Any, tf.Tensor], Any]
"""From a sample, such as `(x, y)` without the batch's dimension, and its seed, int32 [2], to the sample to train on."""


class Augmentation(NamedTuple):
    """A random change of samples.

    Attributes:
        seeds: As many batches of seeds, int32 [k, 2], as there are batches of samples.
        augment: The change, in TensorFlow's operations; random numbers come from `tf.random.stateless_*` and its kin.
    """

    seeds: tf.data.Dataset
    augment: Augment


def by_python(read: Callable[..., Any], specs: Sequence[tf.TensorSpec]) -> LoadSamples:
    """Returns what loads samples by a Python function.

    Args:
        read: From an int64 array [k] to as many arrays as there are `specs`, each [k, ...].
        specs: Shapes, with None for k, and dtypes of what `read` returns.
    """
    counted = CountedCalls(read)
    return lambda numbers: call_python(counted, [numbers], specs)


def read_batches(indices: tf.data.Dataset, load: LoadSamples) -> tf.data.Dataset:
    """Reads one batch of samples for each batch of sample numbers, in order.

    Args:
        indices: int64 of shape [k], where k may change and may be 0.
        load: Loads them.

    Returns:
        A dataset of tuples of tensors.
    """
    return indices.map(lambda numbers: tuple(load(numbers)))


class PaddedBatches(NamedTuple):
    """Batches that are filled up to one size, as `Dataset.batch` and functions of fixed shapes need them.

    Attributes:
        batches: Pairs of the number of samples in the batch, a scalar int64, and a tuple of tensors, each [size, ...],
            in which so many rows come first.
        size: The size of each batch, at least 1.
    """

    batches: tf.data.Dataset
    size: int


def read_filled(numbers: SampleIndices, load: LoadSamples) -> PaddedBatches:
    """Reads batches, filled up by repeating a sample.

    Args:
        numbers: The samples of each batch.
        load: Loads them.
    """
    batches = numbers.filled().map(lambda row, count: (count, tuple(load(row))))
    return PaddedBatches(batches, max(numbers.largest, 1))


def cut_filled(count: tf.Tensor, rows: Any) -> Any:
    """The rows that are in the batch, of each tensor of a structure."""
    return tf.nest.map_structure(lambda tensor: tensor[:count], rows)


def parse_each(
    filled: PaddedBatches, parse: Callable[..., Any], augmentation: Augmentation | None = None
) -> tf.data.Dataset:
    """Makes batches with a function in TensorFlow's operations that parses one sample at a time.

    Samples of all batches are parsed in parallel and batched again. What fills them up is cut after the parsing: so an
    empty batch has the shape of the others, even where `parse` leaves it unknown.

    Args:
        filled: What is parsed.
        parse: From one sample of it to a structure of tensors.
        augmentation: A change of the sample before it is copied into a batch.

    Returns:
        A dataset of what `parse` returns, augmented, each tensor with k in front.
    """
    batches, size = filled

    def spread(count: tf.Tensor, rows: tuple[tf.Tensor, ...], *seeds: tf.Tensor) -> tuple[Any, ...]:
        filled_seeds = [tf.pad(each, [[0, size - tf.shape(each)[0]], [0, 0]]) for each in seeds]
        return tf.fill([size], count), rows, *filled_seeds

    def make(count: tf.Tensor, row: tuple[tf.Tensor, ...], *seed: tf.Tensor) -> tuple[tf.Tensor, Any]:
        sample = parse(*row)
        return count, sample if augmentation is None else augmentation.augment(sample, *seed)

    if augmentation is None:
        samples = batches.map(spread).unbatch()
    else:
        together = tf.data.Dataset.zip(batches, augmentation.seeds)
        samples = together.map(lambda batch, seeds: spread(*batch, seeds)).unbatch()
    made = samples.map(make, num_parallel_calls=parallel_parses())
    return made.batch(size, drop_remainder=True).map(lambda counts, rows: cut_filled(counts[0], rows))
