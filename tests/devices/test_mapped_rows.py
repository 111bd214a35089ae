"""Samples that are mapped for the replicas that need them alone are those of whole batches, to the bit."""

from __future__ import annotations

import collections
import itertools
from collections.abc import Callable

import numpy as np
import pytest
import tensorflow as tf

from tests.helpers.marks import slow
from tfdist.keras_repairs.inputs import data_adapters
from tfdist.order.epoch_order import bounds
from tfdist.runtime.batches.host_feed.batch_slicer import BatchSlicer
from tfdist.runtime.batches.mapped_rows import _most_rows, sample_maps
from tfdist.runtime.batches.replica_batches import are_of_samples

SAMPLES = 37
VARIABLE = tf.Variable(2.0)
TABLE = tf.lookup.experimental.MutableHashTable(tf.int64, tf.int64, 0)

x = np.random.default_rng(0).normal(size=[SAMPLES, 4]).astype("float32")


def pairs() -> tf.data.Dataset:
    return tf.data.Dataset.from_tensor_slices((x, np.arange(SAMPLES)))


def doubled(a: tf.Tensor, b: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    return a * 2, b + 1


def named(a: tf.Tensor, b: tf.Tensor) -> dict[str, tf.Tensor]:
    return {"a": a, "b": b}


def chosen(number: tf.Tensor) -> tf.Tensor:
    return tf.cond(number > 3, lambda: number * 2, lambda: number)


def with_noise(a: tf.Tensor, b: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    return a + tf.random.uniform([], seed=1), b


def by_python(a: tf.Tensor, b: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    return tf.ensure_shape(tf.numpy_function(lambda rows: rows, [a], tf.float32), [4]), b


def by_stateless_python(a: tf.Tensor, b: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    return tf.ensure_shape(tf.numpy_function(lambda rows: rows, [a], tf.float32, stateful=False), [4]), b


def looked_up(a: tf.Tensor, b: tf.Tensor) -> tf.Tensor:
    return tf.ensure_shape(TABLE.lookup(tf.ensure_shape(b, [])), [])


def large(number: tf.Tensor) -> tf.Tensor:
    """Of random numbers, so that samples of 16 MiB come before the next map."""
    return tf.random.uniform([4 << 20])


def length_of(text: tf.Tensor) -> tuple[tf.Tensor]:
    return (tf.strings.length(tf.strings.join([text, "."])),)


def with_variable(a: tf.Tensor, b: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    return a * VARIABLE, b


def even(a: tf.Tensor, b: tf.Tensor) -> tf.Tensor:
    return b % 2 == 0


MAPPED: dict[str, Callable[[], tf.data.Dataset]] = {
    "shuffled": lambda: pairs().shuffle(10).map(doubled).batch(8),
    "parallel": lambda: (
        pairs().map(named, tf.data.AUTOTUNE).prefetch(1).map(lambda parts: (parts["a"], parts)).batch(8, True, 2)
    ),
    "one_tensor": lambda: tf.data.Dataset.range(SAMPLES).map(chosen).batch(5).prefetch(2),
    "counted": lambda: pairs().shuffle(10).map(doubled).batch(8).repeat(2).skip(1).take(7),
    "texts": lambda: tf.data.Dataset.from_tensor_slices([str(2**n) for n in range(20)]).map(length_of).batch(6),
    "random_before": lambda: pairs().map(with_noise).map(doubled).batch(8),
    "few_samples": lambda: pairs().take(3).map(doubled).batch(10**6),
    "filtered_before": lambda: pairs().filter(even).map(doubled).batch(4),
}

WHOLE: dict[str, Callable[[], tf.data.Dataset]] = {
    "no_maps": lambda: pairs().shuffle(10).batch(8),
    "random": lambda: pairs().map(with_noise).batch(8),
    "python": lambda: pairs().map(by_python).batch(8),
    "python_said_to_be_stateless": lambda: pairs().map(by_stateless_python).batch(8),
    "table": lambda: pairs().map(looked_up).batch(8),
    "large_samples": lambda: tf.data.Dataset.range(9).map(large).map(tf.reduce_sum).batch(8),
    "variable": lambda: pairs().map(with_variable).batch(8),
    "any_order": lambda: pairs().map(doubled, 2, deterministic=False).batch(8),
    "any_order_by_options": lambda: pairs().map(doubled, 2).batch(8).with_options(unordered()),
    "open_shapes": lambda: tf.data.Dataset.range(SAMPLES).map(lambda number: tf.range(number % 2)).batch(1),
    "padded": lambda: tf.data.Dataset.range(SAMPLES).map(tf.range).padded_batch(8),
    "of_batches": lambda: pairs().map(doubled).batch(8).map(lambda a, b: (a - tf.reduce_mean(a), b)),
    "filtered": lambda: pairs().map(doubled).filter(even).batch(8),
    "cached": lambda: pairs().map(doubled).cache().batch(8),
}


def unordered() -> tf.data.Options:
    options = tf.data.Options()
    options.deterministic = False
    return options


@pytest.mark.parametrize("make", [pytest.param(make, id=name) for name, make in WHOLE.items()])
def test_what_is_not_of_single_samples_is_left_whole(make: Callable[[], tf.data.Dataset]) -> None:
    assert sample_maps(make()) is None


def test_most_rows_of_replicas() -> None:
    for size, replicas in itertools.product(range(1, 25), range(1, 8)):
        for ids in (range(first, end) for end in range(1, replicas + 1) for first in range(end)):
            pieces = itertools.product(range(1, size + 1), ids)
            counts: dict[int, int] = collections.Counter()
            for total, replica in pieces:
                start, stop = bounds(total, replicas, replica)
                counts[total] += stop - start
            assert _most_rows(ids, replicas, size) == max(1, *counts.values())


def slices_of(dataset: tf.data.Dataset, ids: range, replicas: int, smallest: int) -> tf.data.Dataset:
    return data_adapters._slices(dataset, smallest, ids, replicas, True, shows_extent=True)


@pytest.mark.parametrize("make", [pytest.param(make, id=name) for name, make in MAPPED.items()])
@pytest.mark.parametrize(
    ("ids", "replicas"), [(range(2, 3), 3), (range(2, 4), 5), slow(range(1), 2), slow(range(3, 8), 8)]
)
def test_rows_of_some_replicas(make: Callable[[], tf.data.Dataset], ids: range, replicas: int) -> None:
    tf.random.set_seed(3)
    dataset = make()
    whole_slices = slices_of(dataset, ids, replicas, 0)
    expected = list(whole_slices)
    tf.random.set_seed(3)
    maps = sample_maps(make())
    assert maps is not None
    smallest = maps.size if maps.drops_remainder else 0
    own_slices = slices_of(maps.rows_of(ids, replicas), ids, replicas, smallest)
    found = list(own_slices)
    assert own_slices.cardinality() == whole_slices.cardinality()
    assert len(found) == len(expected) > 0
    for one, other in zip(found, expected, strict=True):
        tf.nest.assert_same_structure(one, other)
        for part, whole in zip(tf.nest.flatten(one), tf.nest.flatten(other), strict=True):
            # Of a replica without samples a row stands in, of whichever sample.
            if int(other.samples) or part.shape.rank == 0:
                np.testing.assert_array_equal(part, whole)
            assert part.dtype == whole.dtype and part.shape == whole.shape


@pytest.mark.parametrize("make", [pytest.param(MAPPED[name], id=name) for name in ("shuffled", "one_tensor")])
def test_rows_of_a_host_in_shared_memory(make: Callable[[], tf.data.Dataset]) -> None:
    host, replicas = range(1, 3), 4
    tf.random.set_seed(3)
    batches = [tf.nest.flatten(batch) for batch in make().as_numpy_iterator()]
    tf.random.set_seed(3)
    maps = sample_maps(make())
    assert maps is not None
    rows = [tf.nest.flatten(batch) for batch in maps.rows_of(host, replicas).as_numpy_iterator()]
    has_rows = tuple(are_of_samples([tf.TensorShape([None])] * len(batches[0])))
    for replica in host:
        whole = BatchSlicer(replicas, [replica], has_rows, counts_replicas=True, shows_extent=True)
        of_host = BatchSlicer(replicas, [replica], has_rows, counts_replicas=True, shows_extent=True, are_rows=True)
        for arrays, of_rows in zip(batches, rows, strict=True):
            total = len(arrays[0])
            assert of_host.rows(of_rows) == whole.rows(arrays) == total
            first, end = bounds(total, replicas, replica)
            (one,), (other,) = of_host.slices(of_rows, 8, np.copy), whole.slices(arrays, 8, np.copy)
            for part, expected in zip(one, other, strict=True):
                if first < end:
                    np.testing.assert_array_equal(part, expected, strict=True)
