"""From batches of sample numbers to batches of samples, in tf.data."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from tfdist.data.buffering import PARALLEL_READS
from tfdist.data.python_calls import CountedCalls, call_python


def parallel_parses() -> int:
    """Samples or batches that are parsed at the same time: one a core that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


Load = Callable[[tf.Tensor], tuple[tf.Tensor, ...]]
"""In a graph, from the numbers of samples, int64 [k], to tensors [k, ...]."""


Augment = Callable[[Any, tf.Tensor], Any]
"""From a sample, such as `(x, y)` without the batch's dimension, and its seed, int32 [2], to the sample to train on."""


class Augmentation(NamedTuple):
    """What is changed at random.

    Attributes:
        seeds: As many batches of seeds, int32 [k, 2], as there are batches of samples.
        augment: In TensorFlow's operations; what is random in it comes from `tf.random.stateless_*` and its kin.
    """

    seeds: tf.data.Dataset
    augment: Augment


def by_python(read: Callable[..., Any], specs: Sequence[tf.TensorSpec]) -> Load:
    """Loads samples by a Python function.

    Args:
        read: From an int64 array [k] to as many arrays as there are `specs`, each [k, ...].
        specs: Shapes, with None for k, and dtypes of what `read` returns.
    """
    counted = CountedCalls(read)
    return lambda numbers: call_python(counted, [numbers], specs)


def by_blocks(read: Callable[..., Any], beside: Sequence[tf.TensorSpec] = ()) -> Load:
    """Loads records, strings [k], by a Python function that returns all of them in one block.

    TensorFlow cuts the block, without Python's lock: to make and to hand over an object for each record takes longer
    than to read it.

    Args:
        read: From an int64 array [k] to the parts of a `record_reader.Block`, and what else there is, each [k, ...].
        beside: Shapes and dtypes of the latter.
    """
    each = tf.TensorSpec([None], tf.int64)
    load_block = by_python(read, [tf.TensorSpec([], tf.string), each, each, *beside])

    def load(numbers: tf.Tensor) -> tuple[tf.Tensor, ...]:
        data, starts, sizes, *rest = load_block(numbers)
        return tf.strings.substr(data, starts, sizes), *rest

    return load


def read_batches(indices: tf.data.Dataset, load: Load) -> tf.data.Dataset:
    """Reads one batch of samples for each batch of sample numbers, in order.

    Args:
        indices: int64 of shape [k], where k may change and may be 0.
        load: Loads them.

    Returns:
        A dataset of tuples of tensors.
    """
    return indices.map(lambda numbers: tuple(load(numbers)), num_parallel_calls=PARALLEL_READS)


def read_samples(
    indices: tf.data.Dataset,
    largest: int,
    load: Load,
    parse: Callable[..., Any],
    augmentation: Augmentation | None = None,
) -> tf.data.Dataset:
    """Like `read_batches`, with a function in TensorFlow's operations that parses one sample at a time.

    Samples of all batches are parsed in parallel and batched again. As `Dataset.batch` makes batches of one size only,
    smaller ones are filled up by repeating a sample, and cut after the parsing: an empty batch so has the shape of the
    others, even where `parse` leaves it unknown.

    Args:
        indices: int64 of shape [k], where k may change and may be 0.
        largest: The largest k.
        load: Loads what is parsed.
        parse: From one sample of what `load` gives to a structure of tensors.
        augmentation: What is done to that at once, before it is copied into a batch.

    Returns:
        A dataset of what `parse` returns, augmented, each tensor with k in front.
    """
    size = max(largest, 1)

    def load_filled(batch: tf.Tensor, *seeds: tf.Tensor) -> tuple[Any, ...]:
        count = tf.shape(batch)[0]
        filler = tf.concat([batch, tf.zeros([1], tf.int64)], axis=0)[:1]
        filled = tf.concat([batch, tf.repeat(filler, size - count)], axis=0)
        beside = [tf.pad(rows, [[0, size - count], [0, 0]]) for rows in seeds]
        return tf.fill([size], count), load(filled), *beside

    def make(count: tf.Tensor, read: tuple[tf.Tensor, ...], *seed: tf.Tensor) -> tuple[tf.Tensor, Any]:
        sample = parse(*read)
        return count, sample if augmentation is None else augmentation.augment(sample, *seed)

    numbers = indices if augmentation is None else tf.data.Dataset.zip(indices, augmentation.seeds)
    samples = numbers.map(load_filled, num_parallel_calls=PARALLEL_READS).unbatch()
    made = samples.map(make, num_parallel_calls=parallel_parses())
    return made.batch(size, drop_remainder=True).map(_cut)


def _cut(counts: tf.Tensor, samples: Any) -> Any:
    return tf.nest.map_structure(lambda tensor: tensor[: counts[0]], samples)
