"""Batches that are drawn once a host reach the replicas as those that a worker draws itself do, to the bit."""

from __future__ import annotations

import dataclasses
import functools
import threading
from collections.abc import Callable, Iterator
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras.src.trainers.data_adapters.array_data_adapter import ArrayDataAdapter
from keras.src.trainers.data_adapters.py_dataset_adapter import PyDatasetAdapter
from keras.src.trainers.data_adapters.tf_dataset_adapter import TFDatasetAdapter

from tests.helpers.mirrored import mirrored
from tfdist.keras_repairs.inputs import data_adapters, host_drawing
from tfdist.keras_repairs.inputs.data_adapters import distribute
from tfdist.keras_repairs.inputs.epoch_iterator import BatchIterator, EpochBatches, Parts
from tfdist.runtime.batches.dataset_description import description_of
from tfdist.runtime.batches.host_feed.host_feed import HostFeed
from tfdist.runtime.batches.mapped_rows import sample_maps
from tfdist.runtime.strategy_settings import settings_of


@functools.cache
def strategy_of(replicas: int) -> tf.distribute.Strategy:
    """MirroredStrategy; of one replica, too, which then takes the path of a worker with one device."""
    return mirrored(replicas) if replicas > 1 else tf.distribute.MirroredStrategy(["CPU:0"])


@pytest.fixture
def feed(monkeypatch: pytest.MonkeyPatch) -> Iterator[HostFeed]:
    """The feed of a worker that is alone on its host, under the strategies of one replica and of three."""
    made = HostFeed(0, [0], [])
    for replicas in (1, 3):
        monkeypatch.setattr(settings_of(strategy_of(replicas)), "feed", made)
    yield made
    made.close()


def numbers(rows: int) -> tf.data.Dataset:
    """Samples of several dtypes, among them one that NumPy lacks, and a scalar that is the whole batch's."""
    x = np.random.default_rng(0).normal(size=[rows, 3])
    parts = {"x": x, "half": x.astype(np.float16), "is_positive": x > 0, "id": np.arange(rows, dtype=np.uint8)}
    data = tf.data.Dataset.from_tensor_slices(parts)
    return data.map(lambda part: {**part, "brain": tf.cast(part["x"], tf.bfloat16)})


def batches(rows: int) -> tf.data.Dataset:
    return numbers(rows).batch(8).map(lambda part: (part, tf.reduce_sum(part["x"])))


def lengths(rows: int) -> tf.data.Dataset:
    """Samples whose length is that of the longest of their batch."""
    data = tf.data.Dataset.range(rows).map(lambda row: tf.fill([row % 5 + 1], row))
    return data.padded_batch(8)


def all_of(dataset: Any) -> tuple[Any, list[Any]]:
    iterator: BatchIterator = iter(EpochBatches(Parts(dataset), None, None, 0, plain_keras_overruns=False, is_cut=True))
    spec, values = None, []
    try:
        while True:
            batch = next(iterator)
            spec = batch.spec
            values.append(tf.nest.flatten(batch.values, expand_composites=True))
    except tf.errors.OutOfRangeError:
        return spec, values


@pytest.mark.parametrize(
    ("make", "rows", "smallest", "replicas"), [(batches, 24, 8, 3), (batches, 17, 0, 1), (lengths, 26, 0, 3)]
)
def test_pieces_of_a_feed(
    feed: HostFeed, make: Callable[[int], tf.data.Dataset], rows: int, smallest: int, replicas: int
) -> None:
    own = all_of(distribute(make(rows), strategy_of(replicas), smallest))
    fed = distribute(make(rows), strategy_of(replicas), smallest, once=True)
    assert description_of(fed).fed is not None
    for _ in range(2):
        spec, values = all_of(fed)
        assert spec == own[0]
        assert len(values) == len(own[1]) > 0
        for one, other in zip(values, own[1], strict=True):
            for part, expected in zip(one, other, strict=True):
                assert part.dtype == expected.dtype
                np.testing.assert_array_equal(part.numpy(), expected.numpy(), strict=True)


def shuffled(rows: int) -> tf.data.Dataset:
    return tf.data.Dataset.range(rows).shuffle(8, seed=1).map(lambda row: tf.cast(row, tf.float32) / 2).batch(8)


@pytest.mark.parametrize("replicas", [1, 3])
def test_pieces_of_a_feed_of_mapped_rows(feed: HostFeed, monkeypatch: pytest.MonkeyPatch, replicas: int) -> None:
    """As the hosts of a job of several draw them; here those of one, which needs all rows."""
    own = all_of(distribute(shuffled(17), strategy_of(replicas)))
    monkeypatch.setattr(data_adapters, "maps_of_rows", lambda dataset, strategy, once: sample_maps(dataset))
    fed = distribute(shuffled(17), strategy_of(replicas), once=True)
    described = description_of(fed).fed
    assert described is not None and described.are_rows
    spec, values = all_of(fed)
    assert spec == own[0] and len(values) == len(own[1]) == 3
    for one, other in zip(values, own[1], strict=True):
        for part, expected in zip(one, other, strict=True):
            np.testing.assert_array_equal(part.numpy(), expected.numpy(), strict=True)


def iterator_over(batches: Any) -> BatchIterator:
    fed = distribute(lengths(8), strategy_of(1), once=True)
    described = description_of(fed)
    assert described.fed is not None
    described.fed = dataclasses.replace(described.fed, batches=batches)
    return iter(EpochBatches(Parts(fed), None, None, 0, plain_keras_overruns=False, is_cut=True))


def test_an_error_of_the_data_is_raised_where_its_batch_was_due(feed: HostFeed) -> None:
    rows = tf.data.Dataset.range(24).map(lambda row: tf.fill([tf.where(row == 20, tf.constant(-1, tf.int64), 2)], row))
    iterator = iterator_over(rows.batch(8))
    next(iterator)
    next(iterator)
    with pytest.raises(tf.errors.InvalidArgumentError, match="must be >= 0"):
        next(iterator)


def test_an_error_of_making_the_iterator_is_one_of_its_first_batch(feed: HostFeed) -> None:
    """All workers of the host wait for the channel, and would not hear of it."""

    class Unmade:
        def with_options(self, options: tf.data.Options) -> Any:
            raise tf.errors.NotFoundError(None, None, "no such file")

    iterator = iterator_over(Unmade())
    with pytest.raises(tf.errors.NotFoundError, match="no such file"):
        next(iterator)


def test_an_iterator_that_goes_ends_the_drawing(feed: HostFeed) -> None:
    iterator = iterator_over(lengths(8).repeat())
    next(iterator)
    assert "tfdist-drawing" in [thread.name for thread in threading.enumerate()]
    del iterator
    assert "tfdist-drawing" not in [thread.name for thread in threading.enumerate()]


class Batches(keras.utils.PyDataset):
    def __len__(self) -> int:
        return 2

    def __getitem__(self, index: int) -> tuple[np.ndarray, np.ndarray]:
        return np.zeros((2, 3)), np.zeros(2)


def texts() -> tf.data.Dataset:
    return tf.data.Dataset.from_tensor_slices(["a", "b"]).map(tf.strings.upper).batch(2)


def in_memory() -> tf.data.Dataset:
    return tf.data.Dataset.from_tensor_slices(np.ones([9, 2])).cache().shuffle(9).repeat(2).batch(2).prefetch(1)


@pytest.mark.parametrize(
    ("make", "why_not"),
    [
        (lambda: TFDatasetAdapter(batches(8)), ""),
        (lambda: TFDatasetAdapter(lengths(8).filter(lambda rows: True)), ""),
        (lambda: PyDatasetAdapter(Batches()), ""),
        (lambda: TFDatasetAdapter(in_memory()), "only order and join"),
        (lambda: TFDatasetAdapter(in_memory().map(lambda x: (x / 255, tf.one_hot(1, 2)))), "whole batches a little"),
        (lambda: TFDatasetAdapter(in_memory().map(tf.image.adjust_gamma)), ""),
        (lambda: TFDatasetAdapter(in_memory().unbatch().map(lambda x: x / 255).batch(2)), ""),
        (lambda: TFDatasetAdapter(texts()), "only dense tensors of numbers"),
        (lambda: TFDatasetAdapter(in_memory().ragged_batch(2)), "only dense tensors of numbers"),
        (lambda: ArrayDataAdapter(np.zeros((4, 2)), np.zeros(4), batch_size=2), "rows of arrays"),
    ],
)
def test_what_is_drawn_once(feed: HostFeed, make: Callable[[], Any], why_not: str) -> None:
    adapter = make()
    said = host_drawing.why_not_once(adapter, adapter.get_tf_dataset(), mirrored(3))
    assert bool(said) == bool(why_not) and why_not in said


def test_without_other_workers_on_the_host_each_draws_its_own() -> None:
    said = host_drawing.why_not_once(PyDatasetAdapter(Batches()), batches(8), mirrored(2))
    assert "no other worker of this host" in said
