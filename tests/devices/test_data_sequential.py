"""What can only be read in sequence: the same global batches over 1, 2 and 3 replicas, from any step on."""

from __future__ import annotations

import functools
import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfdist.data
from tests.devices.test_data_formats import FEATURES, example, failure, flat, parse
from tests.devices.test_data_pipeline import expected_epoch, read_epoch
from tests.helpers.mirrored import mirrored
from tfdist import keras_repairs
from tfdist.data.formats.generator_samples import GeneratorSamples
from tfdist.data.formats.tfrecord_samples import ExampleSamples, ParsedRecordSamples
from tfdist.data.pipeline import build
from tfdist.data.sequential import sequential_tfrecords
from tfdist.data.sequential.tfrecord_stream import read_records
from tfdist.errors import DataError, UsageError
from tfdist.order.epoch_span import Position
from tfdist.order.sequential_order import LaneOrder, Lanes
from tfdist.runtime.batches.dataset_description import description_of, take_partial_epoch

LAYOUTS = [[10], [5, 5], [0, 3, 0, 7, 0], [1] * 10, [40, 3, 25]]


def write(folder: str, sizes: list[int], compression: str = "GZIP") -> str:
    """Files of so many records, numbered through."""
    numbers = iter(range(sum(sizes)))
    for shard, size in enumerate(sizes):
        with tf.io.TFRecordWriter(f"{folder}/train-{shard:02}.tfrecord.gz", compression) as writer:
            for _ in range(size):
                writer.write(example(next(numbers)))
    return f"{folder}/train-*.tfrecord.gz"


def order_of(sizes: list[int], batch_size: int, *, most: int = 64, buffer: int = 16, seed: int = 3) -> LaneOrder:
    return LaneOrder(Lanes.of(tuple(sizes), most, buffer), batch_size, seed, True)


def epoch_of(order: LaneOrder, epoch: int) -> np.ndarray:
    return order.at(epoch, np.arange(order.num_samples))


@pytest.mark.parametrize("sizes", LAYOUTS, ids=str)
@pytest.mark.parametrize("batch_size", [4, 100])
def test_each_epoch_has_the_planned_batches(
    strategy: tf.distribute.Strategy, tmp_path: Path, sizes: list[int], batch_size: int
) -> None:
    files = write(str(tmp_path), sizes)
    batches = tfdist.data.tfrecords(
        files, parse, batch_size=batch_size, shuffle=True, seed=3, shuffle_buffer=16, strategy=strategy
    )
    for epoch in range(2):
        order = epoch_of(order_of(sizes, batch_size), epoch)
        assert read_epoch(batches, strategy) == expected_epoch(order, batch_size, strategy.num_replicas_in_sync)


@pytest.mark.parametrize("compression", ["", "GZIP", "ZLIB"])
def test_files_of_another_file_system(strategy: tf.distribute.Strategy, compression: str) -> None:
    files = write(f"ram://{compression}{strategy.num_replicas_in_sync}", [7, 6], compression)
    batches = tfdist.data.tfrecords(files, features=FEATURES, label="y", batch_size=4, strategy=strategy)
    x, y = flat(batches, strategy)
    assert sorted(y.tolist()) == list(range(13))
    assert x.tolist() == [[float(label), -float(label)] for label in y]


@pytest.mark.parametrize("done", [1, 3])
def test_a_resumed_training_begins_with_the_rest_of_an_epoch(
    strategy: tf.distribute.Strategy, tmp_path: Path, done: int
) -> None:
    sizes = [40, 3, 25]
    source = ParsedRecordSamples(write(str(tmp_path), sizes), parse, shuffle_buffer=16)
    later = build(source, batch_size=8, shuffle=True, seed=3, strategy=strategy, begin=Position(2, done))
    rest = take_partial_epoch(later)
    assert rest is not None
    expected = [
        expected_epoch(epoch_of(order_of(sizes, 8), epoch), 8, strategy.num_replicas_in_sync) for epoch in (2, 3)
    ]
    assert read_epoch(rest.batches(), strategy) == expected[0][done:]
    assert read_epoch(later, strategy) == expected[1]


def numbers(lane: int = 0) -> Iterator[tuple[np.ndarray, int]]:
    for number in range(lane * 100, lane * 100 + 13 + lane):
        yield np.array([number, -number], np.float64), number


@pytest.mark.parametrize("batch_size", [4, 13, 100])
def test_a_generator(strategy: tf.distribute.Strategy, batch_size: int) -> None:
    batches = tfdist.data.generator(numbers, batch_size=batch_size, shuffle=True, seed=3, strategy=strategy)
    for epoch in range(2):
        order = epoch_of(order_of([13], batch_size, buffer=1 << 14), epoch)
        assert read_epoch(batches, strategy) == expected_epoch(order, batch_size, strategy.num_replicas_in_sync)


def test_a_generator_of_several_lanes(strategy: tf.distribute.Strategy) -> None:
    batches = tfdist.data.generator(numbers, lanes=3, batch_size=8, strategy=strategy)
    x, y = flat(batches, strategy)
    assert sorted(y.tolist()) == [lane * 100 + n for lane in range(3) for n in range(13 + lane)]
    assert (x.dtype, x[:, 0].tolist()) == (np.float32, y.tolist())


class Rows:
    """Samples by a call of an object."""

    def __call__(self) -> Iterator[tuple[np.ndarray, int]]:
        return numbers()


@pytest.mark.parametrize(
    "make",
    [lambda: functools.partial(numbers, 1), Rows, lambda: Rows().__call__],
    ids=["partial", "object", "method"],
)
def test_a_generator_is_known_on_another_worker(make: Any) -> None:
    """Also one that is no function, whose text has its address in memory."""
    here, there = make(), make()
    assert GeneratorSamples(here).fingerprint() == GeneratorSamples(there).fingerprint()
    assert " at 0x" not in GeneratorSamples(here).name(0)


def endless() -> Iterator[dict[str, Any]]:
    number = 0
    while True:
        yield {"x": f"word {number}", "y": number}
        number += 1


def test_an_epoch_of_an_endless_generator_has_the_requested_samples() -> None:
    batches = tfdist.data.generator(endless, samples=5, batch_size=2)
    for _ in range(2):
        found = list(batches)
        assert [word for batch in found for word in batch["x"].numpy()] == [f"word {n}".encode() for n in range(5)]


def test_what_the_order_depends_on_is_noted() -> None:
    source = GeneratorSamples(numbers, samples=[13, 14], lanes=2, shuffle_buffer=16)
    facts = {"samples": 27, "batch_size": 4, "seed": 3, "shuffle": True, "augmented": True, "lanes": 2, "window": 8}
    noted = description_of(build(source, batch_size=4, shuffle=True, seed=3, augment=lambda sample, seed: sample)).order
    assert noted is not None and noted.facts == facts


def test_training_gives_the_numbers_of_one_replica(tmp_path: Path) -> None:
    """Sizes that do not divide: 67 samples, batches of 16, three files, three replicas."""
    keras_repairs.install()
    files = write(str(tmp_path), [31, 7, 29])

    def losses(strategy: tf.distribute.Strategy) -> list[float]:
        keras.utils.set_random_seed(1)
        with strategy.scope():
            model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
            model.compile(keras.optimizers.SGD(1e-6), "mse")
        batches = tfdist.data.tfrecords(
            files, parse, batch_size=16, shuffle=True, seed=3, shuffle_buffer=8, strategy=strategy
        )
        return model.fit(batches, epochs=3, shuffle=False, verbose=0).history["loss"]

    expected = losses(tf.distribute.get_strategy())
    assert losses(mirrored(2)) == pytest.approx(expected, rel=1e-5)
    assert losses(mirrored(3)) == pytest.approx(expected, rel=1e-5)


def test_each_file_is_opened_once_an_epoch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the order that was made for it, nothing is read twice: not for the next batch, not at the end of a file."""
    sizes = [40, 33, 25, 1, 60, 2]
    source = ParsedRecordSamples(write(str(tmp_path), sizes), parse, shuffle_buffer=16, interleave=2)
    list(build(source, batch_size=8, shuffle=True, seed=3))
    opened: list[str] = []
    monkeypatch.setattr(
        sequential_tfrecords, "read_records", lambda name, kind: opened.append(name) or read_records(name, kind)
    )
    batches = build(source, batch_size=8, shuffle=True, seed=3)
    for _ in range(3):
        opened.clear()
        list(batches)
        assert len(opened) == len(set(opened)) <= len(sizes)


def test_a_seeded_augmentation_is_that_of_the_sample(strategy: tf.distribute.Strategy, tmp_path: Path) -> None:
    def drawn(sample: Any, seed: tf.Tensor) -> Any:
        return tf.random.stateless_uniform([], seed), sample[1]

    options: dict[str, Any] = {"batch_size": 4, "shuffle": True, "seed": 3, "augment": drawn}
    files = write(str(tmp_path), [9, 8])
    x, y = flat(tfdist.data.tfrecords(files, parse, **options), tf.distribute.get_strategy())
    one = dict(zip(y.tolist(), x.tolist(), strict=True))
    x, y = flat(tfdist.data.tfrecords(files, parse, strategy=strategy, **options), strategy)
    assert x.tolist() == [one[label] for label in y.tolist()]
    assert len(set(one.values())) == 17


# What is wrong is one error that names file and record.


def cut(path: Path, keep: float) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * keep)])


def test_a_truncated_file_is_named_before_the_run(tmp_path: Path) -> None:
    files = write(str(tmp_path), [50, 50])
    cut(tmp_path / "train-01.tfrecord.gz", 0.6)
    with pytest.raises(DataError, match=r"train-01.tfrecord.gz is truncated: its GZIP data ends at record \d+ or soon"):
        tfdist.data.tfrecords(files, parse, batch_size=4)


def test_a_damaged_stream_is_named(tmp_path: Path) -> None:
    files = write(str(tmp_path), [500])
    path = tmp_path / "train-00.tfrecord.gz"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0xFF
    path.write_bytes(data)
    with pytest.raises(DataError, match=r"train-00.tfrecord.gz.* record \d+"):
        tfdist.data.tfrecords(files, parse, batch_size=4)


def test_a_damaged_record_is_named(strategy: tf.distribute.Strategy, tmp_path: Path) -> None:
    files = write(str(tmp_path), [6, 6])
    path = tmp_path / "train-01.tfrecord.gz"
    data = bytearray(gzip.decompress(path.read_bytes()))
    data[-6] ^= 1
    path.write_bytes(gzip.compress(bytes(data)))
    message = failure(tfdist.data.tfrecords(files, parse, batch_size=4, strategy=strategy))
    assert message == f"{path}, record 5: the data's checksum is wrong, the file is damaged."


def test_a_file_that_changes_is_named(tmp_path: Path) -> None:
    files = write(str(tmp_path), [6])
    batches = tfdist.data.tfrecords(files, parse, batch_size=4)
    list(batches)
    write(str(tmp_path), [7])
    assert "train-00.tfrecord.gz changed while the run was using it" in failure(batches)


def test_files_that_are_compressed_in_different_ways(tmp_path: Path) -> None:
    write(str(tmp_path), [2], "ZLIB")
    (tmp_path / "train-00.tfrecord.gz").rename(tmp_path / "train-09.tfrecord.gz")
    files = write(str(tmp_path), [2, 0])
    with pytest.raises(DataError, match="compressed in different ways: .*00.*is GZIP-compressed, .*09.* is ZLIB-comp"):
        tfdist.data.tfrecords(files, parse, batch_size=4)


def test_corrupt_records_cannot_be_left_out(tmp_path: Path) -> None:
    files = write(str(tmp_path), [2])
    with pytest.raises(DataError, match="on_corrupt: skip was asked for, .* is GZIP-compressed"):
        tfdist.data.tfrecords(files, parse, batch_size=4, on_corrupt="skip")


def test_a_record_that_lacks_a_feature_is_named(tmp_path: Path) -> None:
    files = write(str(tmp_path), [2])
    with tf.io.TFRecordWriter(str(tmp_path / "train-01.tfrecord.gz"), "GZIP") as writer:
        writer.write(example(0, label=False))
    message = failure(build(ExampleSamples(files, FEATURES, "y"), batch_size=4))
    record = f"{tmp_path}/train-01.tfrecord.gz, record 0"
    assert message.startswith(f"{record} does not fit the features: Feature: y (data type: int64) is required")


@pytest.mark.parametrize(
    ("function", "options", "error", "message"),
    [
        (lambda: iter(()), {}, DataError, "at least one sample. Received: none from the generator"),
        (lambda: iter(()), {"samples": 4}, DataError, "at least one sample. Received: none from the generator"),
        (lambda lane: iter(()), {"samples": [0, 4], "lanes": 2}, DataError, "none from the generator .*, lane 1"),
        (lambda: 5, {}, UsageError, "to return an iterator over samples.* Received: int"),
        (numbers, {"samples": -1}, UsageError, "samples: expected an integer of 0 or more"),
        (numbers, {"samples": 1.5}, UsageError, "samples: expected an integer of 0 or more"),
        (numbers, {"samples": [1], "lanes": 2}, UsageError, "samples: expected 2 integers"),
        (numbers, {"shuffle_buffer": 0}, UsageError, "shuffle_buffer: expected an integer of 1 or more"),
        (numbers, {"lanes": 0}, UsageError, "lanes: expected an integer of 1 or more"),
        (numbers, {"output_signature": tf.TensorSpec([], tf.int64)}, DataError, "sample 0: .*output_signature"),
    ],
)
def test_generators_that_cannot_be_used(
    function: Any, options: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        GeneratorSamples(function, **options)


def test_a_generator_that_changes_its_mind() -> None:
    lengths = iter([5, 5, 5, 3])  # counted, looked at, and two epochs
    batches = tfdist.data.generator(lambda: iter(range(next(lengths))), batch_size=2)
    list(batches)
    assert "ends after 3 samples. Expected 5" in failure(batches)


def test_samples_of_different_shapes() -> None:
    batches = tfdist.data.generator(lambda: iter([np.zeros(2), np.zeros(3)]), batch_size=2)
    assert "sample 1: an array has the shape (3,) and not (2,)" in failure(batches)


@pytest.mark.parametrize(
    ("first", "second", "problem"),
    [
        (0, 0.5, "0.5 is no int64"),
        ([1, 2], [3, float("nan")], "nan is no int64"),
        (np.uint8(1), 300, "300 is no uint8"),
        (np.zeros(2, np.uint8), np.array([1, -1]), "-1 is no uint8"),
        (True, 2, "2 is no bool"),
        (1, 1 << 70, "Python int too large to convert to C long"),
    ],
)
def test_numbers_that_the_type_of_the_first_sample_would_change(first: Any, second: Any, problem: str) -> None:
    batches = tfdist.data.generator(lambda: iter([(0.0, first), (1.0, second)]), batch_size=1)
    assert f"sample 1: {problem}. Expected samples of one structure, type and shape" in failure(batches)


def test_numbers_that_the_type_of_the_first_sample_holds() -> None:
    samples = [(0.5, np.uint8(1)), (2, 255.0), (np.float64(3), True), (np.int8(-1), np.int64(7))]
    ((x, y),) = list(tfdist.data.generator(lambda: iter(samples), batch_size=4))
    assert (x.numpy().tolist(), y.numpy().tolist()) == ([0.5, 2, 3, -1], [1, 255, 1, 7])
    assert (x.dtype, y.dtype) == (tf.float32, tf.uint8)
