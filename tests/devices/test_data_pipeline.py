"""Global batches and their pieces, over 1, 2 and 3 replicas."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.data.ops import multi_device_iterator_ops

import tfdist.data
from tests.helpers.mirrored import mirrored
from tfdist.data.formats.array_samples import ArraySamples
from tfdist.data.ops.sample_indices import SampleIndices
from tfdist.data.pipeline import build, replica_batches
from tfdist.data.sample_feed import SampleFeed
from tfdist.errors import DataError, UsageError
from tfdist.keras_repairs.inputs.data_adapters import distribute
from tfdist.order.epoch_order import EpochOrder, EpochSteps, bounds
from tfdist.order.epoch_span import Position
from tfdist.order.per_worker_order import WorkerShareSteps
from tfdist.runtime.batches.dataset_description import take_partial_epoch
from tfdist.runtime.random_state import run_seed

SIZES = [(1, 4), (2, 4), (8, 4), (9, 4), (10, 4), (11, 1), (7, 100), (225, 32)]


def read_epoch(batches: Any, strategy: tf.distribute.Strategy) -> list[list[list[int]]]:
    """The labels of an epoch: step by step, replica by replica."""
    return [[piece.numpy().tolist() for piece in strategy.experimental_local_results(y)] for _, y in batches]


def expected_epoch(order: np.ndarray, batch_size: int, replicas: int) -> list[list[list[int]]]:
    steps = [order[start : start + batch_size] for start in range(0, len(order), batch_size)]
    return [[step[slice(*bounds(len(step), replicas, k))].tolist() for k in range(replicas)] for step in steps]


def numbered(samples: int, **options: Any) -> tf.data.Dataset | tf.distribute.DistributedDataset:
    y = np.arange(samples)
    return tfdist.data.arrays(np.stack([y, y], axis=1), y, **options)


@pytest.mark.parametrize(("samples", "batch_size"), SIZES)
@pytest.mark.parametrize("shuffle", [False, True])
def test_each_epoch_has_the_planned_batches(
    strategy: tf.distribute.Strategy, samples: int, batch_size: int, shuffle: bool
) -> None:
    batches = numbered(samples, batch_size=batch_size, shuffle=shuffle, seed=7, strategy=strategy)
    for epoch in range(3):
        order = EpochOrder(samples, 7, shuffle).of(epoch)
        assert read_epoch(batches, strategy) == expected_epoch(order, batch_size, strategy.num_replicas_in_sync)


@pytest.mark.parametrize(("done", "batch_size"), [(1, 4), (2, 4), (3, 4), (0, 4), (1, 100)])
def test_a_resumed_training_begins_with_the_rest_of_an_epoch(
    strategy: tf.distribute.Strategy, done: int, batch_size: int
) -> None:
    source = ArraySamples(np.zeros((10, 2)), np.arange(10))
    begin = Position(2, done)
    later = build(source, batch_size=batch_size, shuffle=True, seed=7, strategy=strategy, begin=begin)
    expected = [
        expected_epoch(EpochOrder(10, 7, True).of(epoch), batch_size, strategy.num_replicas_in_sync)
        for epoch in (2, 3, 4)
    ]
    rest = take_partial_epoch(later)
    assert take_partial_epoch(later) is None, "it comes once"
    if done:
        assert rest is not None and rest.done == done
        assert read_epoch(rest.batches(), strategy) == expected.pop(0)[done:]
    else:
        assert rest is None
    assert [read_epoch(later, strategy) for _ in expected] == expected


class Countless:
    """A trillion samples, each of which is its own number."""

    def __len__(self) -> int:
        return 10**12

    def batches(self, numbers: SampleIndices) -> tf.data.Dataset:
        return numbers.batches().map(lambda batch: (batch, batch))

    def name(self, number: int) -> str:
        return f"sample {number}"


def test_a_training_resumes_in_the_middle_of_a_trillion_samples(strategy: tf.distribute.Strategy) -> None:
    done = 10**10 // 3
    later = build(Countless(), batch_size=100, shuffle=True, seed=7, strategy=strategy, begin=Position(3, done))
    rest = take_partial_epoch(later)
    assert rest is not None
    expected = EpochOrder(10**12, 7, True).at(3, np.arange(done * 100, done * 100 + 300)).reshape(3, 100).tolist()
    read = [
        [number for piece in strategy.experimental_local_results(y) for number in piece.numpy().tolist()]
        for _, (_, y) in zip(range(3), iter(rest.batches()), strict=False)
    ]
    assert read == expected


@pytest.mark.parametrize(("samples", "batch_size"), SIZES)
def test_keras_learns_the_number_of_steps(strategy: tf.distribute.Strategy, samples: int, batch_size: int) -> None:
    batches = numbered(samples, batch_size=batch_size, strategy=strategy)
    assert int(batches.cardinality) == -(-samples // batch_size) if strategy.num_replicas_in_sync > 1 else True
    assert len(list(batches)) == -(-samples // batch_size)


def test_the_type_is_what_keras_takes(strategy: tf.distribute.Strategy) -> None:
    kind = tf.distribute.DistributedDataset if strategy.num_replicas_in_sync > 1 else tf.data.Dataset
    assert isinstance(numbered(4, batch_size=2, strategy=strategy), kind)


def test_x_goes_with_y_and_structures_stay(strategy: tf.distribute.Strategy) -> None:
    x = {"a": np.arange(10, dtype=np.float64), "words": np.array([str(i) for i in range(10)])}
    batches = tfdist.data.arrays(x, np.arange(10), batch_size=4, shuffle=True, seed=1, strategy=strategy)
    pieces = [
        dict(zip(("a", "words", "y"), values, strict=True))
        for features, y in batches
        for values in zip(*map(strategy.experimental_local_results, (features["a"], features["words"], y)), strict=True)
    ]
    assert {piece["a"].dtype for piece in pieces} == {tf.float32}
    for piece in pieces:
        assert piece["a"].numpy().tolist() == piece["y"].numpy().tolist()
        assert piece["words"].numpy().tolist() == [str(i).encode() for i in piece["y"].numpy()]


def test_batches_have_an_open_first_dimension() -> None:
    x, y = numbered(8, batch_size=4).element_spec
    assert (x.shape.as_list(), y.shape.as_list()) == ([None, 2], [None])


def test_the_current_strategy_is_the_default() -> None:
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    with strategy.scope():
        batches = numbered(4, batch_size=4)
    assert read_epoch(batches, strategy) == [[[0, 1], [2, 3]]]


def test_the_runs_seed_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    """Under whatever strategy: a script on one device may make its own."""
    one = tf.distribute.OneDeviceStrategy("CPU:0")
    outside = read_epoch(numbered(50, batch_size=50, shuffle=True, strategy=one), one)
    monkeypatch.setattr(run_seed, "value", 11)
    one = tf.distribute.OneDeviceStrategy("CPU:0")
    inside = read_epoch(numbered(50, batch_size=50, shuffle=True, strategy=one), one)
    assert outside == [[EpochOrder(50, 0, True).of(0).tolist()]]
    assert inside == [[EpochOrder(50, 11, True).of(0).tolist()]]


def test_deleting_an_iterator_does_not_wait(strategy: tf.distribute.Strategy, monkeypatch: pytest.MonkeyPatch) -> None:
    """With tf.data's autotuner an iterator that was read for a second may take a second to go."""
    batches = numbered(40, batch_size=4, shuffle=True, strategy=strategy)
    of_devices = []
    make = multi_device_iterator_ops._create_device_dataset

    def made(*args: Any, **kwargs: Any) -> tf.data.Dataset:
        of_devices.append(make(*args, **kwargs))
        return of_devices[-1]

    monkeypatch.setattr(multi_device_iterator_ops, "_create_device_dataset", made)
    next(iter(batches))
    of_workers = [batches] if isinstance(batches, tf.data.Dataset) else batches._datasets
    assert len(of_workers) == 1
    assert len(of_devices) == (0 if strategy.num_replicas_in_sync == 1 else strategy.num_replicas_in_sync)
    assert {dataset.options().autotune.enabled for dataset in (*of_workers, *of_devices)} == {False}


@pytest.mark.parametrize(
    "options", [{"batch_size": 0}, {"batch_size": -1}, {"batch_size": 2.5}, {"batch_size": True}, {"seed": -1}]
)
def test_impossible_arguments(options: dict[str, Any]) -> None:
    (name,) = options
    with pytest.raises(UsageError, match=f"{name}: expected an integer of . or more. Received: {options[name]}"):
        build(ArraySamples(np.ones(3)), **{"batch_size": 1, **options})


@pytest.mark.parametrize("shuffle", ["no", 1000, None])
def test_what_is_no_bool_does_not_shuffle(shuffle: Any) -> None:
    """tf.data's `shuffle` takes the size of a buffer."""
    with pytest.raises(UsageError, match=rf"^shuffle: expected True or False. Received: {shuffle!r}. No size"):
        numbered(3, batch_size=1, shuffle=shuffle)
    assert numbered(3, batch_size=1, shuffle=np.bool_(True)) is not None


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        (np.ones((3, 2)), np.ones(4), r"same number of samples. Received the shapes: \(3, 2\), \(4,\)"),
        (np.ones((0, 2)), np.ones(0), "at least one sample"),
        (np.float32(1), None, "samples along its first axis"),
        (np.array([{}, {}]), None, "numbers or strings"),
    ],
)
def test_arrays_that_cannot_be_used(x: Any, y: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        ArraySamples(x, y)


@pytest.mark.parametrize(
    "steps",
    [EpochSteps(69, 32, 3), EpochSteps(66, 32, 3), EpochSteps(67, 33, 3), WorkerShareSteps((60, 8, 1), 32, 3)],
)
def test_replicas_know_the_size_of_the_whole_batch_and_its_pieces(steps: EpochSteps | WorkerShareSteps) -> None:
    """Pieces of the workers' own shares may be larger than an even part, or empty: then sample 0 stands in."""
    y = np.arange(steps.num_samples)
    feed = SampleFeed(ArraySamples(y, y), EpochOrder(steps.num_samples), steps)
    strategy = mirrored(3)
    for step in distribute(replica_batches(feed, strategy), strategy):
        rows = [int(samples) for samples in strategy.experimental_local_results(step.samples)]
        for piece, samples in zip(strategy.experimental_local_results(step.data[1]), rows, strict=True):
            assert len(piece) == samples or piece.numpy().tolist() == [samples]
        (total, *_), (largest, *_) = (
            strategy.experimental_local_results(value) for value in (step.total, step.largest)
        )
        assert int(total) == sum(rows)
        if steps.every_replica_has_samples:
            assert step.counting == ()
        else:
            assert int(strategy.experimental_local_results(step.counting)[0]) == np.count_nonzero(rows)
        firsts = [int(first) for first in strategy.experimental_local_results(step.first)]
        assert firsts == [sum(rows[:replica]) for replica in range(3)]
        assert max(rows) <= -(-int(largest) // 3)


def test_a_loop_may_distribute_what_is_distributed() -> None:
    """As TensorFlow's guides have it, whatever the dataset is."""
    strategy = mirrored(2)
    batches = numbered(10, batch_size=4, shuffle=True, seed=7, strategy=strategy)
    assert strategy.experimental_distribute_dataset(batches) is batches
    plain = strategy.experimental_distribute_dataset(tf.data.Dataset.range(4).batch(4))
    assert isinstance(plain, tf.distribute.DistributedDataset)
