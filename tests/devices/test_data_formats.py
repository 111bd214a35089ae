"""Each format read through the whole pipeline, over 1, 2 and 3 replicas."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tfdist.data
from tests.helpers.mirrored import mirrored
from tfdist.data.formats.tfrecord_samples import ExampleSamples, ParsedRecordSamples
from tfdist.data.ops.record_parser import data_error_in
from tfdist.data.ops.sample_indices import SampleIndices
from tfdist.data.random_access.tfrecord_reader import TFRecordReader
from tfdist.errors import DataError, UsageError
from tfdist.keras_repairs.inputs.data_adapters import distribute
from tfdist.order.epoch_order import EpochOrder, EpochSteps
from tfdist.order.epoch_span import EpochSpan
from tfdist.runtime.batches.dataset_description import EpochCounter

FEATURES = {"x": tf.io.FixedLenFeature([2], tf.float32), "y": tf.io.FixedLenFeature([], tf.int64)}
Open = Callable[..., Any]


def example(number: int, label: bool = True) -> bytes:
    feature = {"x": tf.train.Feature(float_list=tf.train.FloatList(value=[number, -number]))}
    if label:
        feature["y"] = tf.train.Feature(int64_list=tf.train.Int64List(value=[number]))
    return tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString()


def parse(record: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    features = tf.io.parse_single_example(record, FEATURES)
    return features["x"], features["y"]


def write_tfrecord(path: Path, records: list[bytes]) -> Path:
    with tf.io.TFRecordWriter(str(path)) as writer:
        for record in records:
            writer.write(record)
    return path


def write_shards(folder: Path, sizes: list[int]) -> str:
    numbers = iter(range(sum(sizes)))
    for shard, size in enumerate(sizes):
        write_tfrecord(folder / f"train-{shard:02}.tfrecord", [example(next(numbers)) for _ in range(size)])
    return str(folder / "train-*.tfrecord")


def flat(batches: Any, strategy: tf.distribute.Strategy) -> tuple[np.ndarray, np.ndarray]:
    """All samples of an epoch in order."""
    pieces = [tf.nest.map_structure(strategy.experimental_local_results, batch) for batch in batches]
    return tuple(np.concatenate([piece.numpy() for batch in pieces for piece in batch[i]]) for i in (0, 1))


def open_parsed(files: str, **options: Any) -> Any:
    return tfdist.data.tfrecords(files, parse, **options)


def open_features(files: str, **options: Any) -> Any:
    return tfdist.data.tfrecords(files, features=FEATURES, label="y", **options)


@pytest.mark.parametrize("open_files", [open_parsed, open_features])
@pytest.mark.parametrize(
    "shards",
    [[10], [5, 5], [0, 3, 0, 7, 0], [1] * 10],  # one file; fewer than replicas; empty files; more than replicas
)
def test_tfrecords(strategy: tf.distribute.Strategy, tmp_path: Path, open_files: Open, shards: list[int]) -> None:
    batches = open_files(write_shards(tmp_path, shards), batch_size=4, shuffle=True, seed=3, strategy=strategy)
    for epoch in range(2):
        x, y = flat(batches, strategy)
        assert y.tolist() == EpochOrder(10, 3, True).of(epoch).tolist()
        assert x.tolist() == [[float(label), -float(label)] for label in y]


@pytest.mark.parametrize("open_files", [open_parsed, open_features])
def test_more_replicas_than_records(strategy: tf.distribute.Strategy, tmp_path: Path, open_files: Open) -> None:
    batches = open_files(write_shards(tmp_path, [1]), batch_size=1, strategy=strategy)
    ((x, _),) = list(batches)
    shapes = [piece.shape.as_list() for piece in strategy.experimental_local_results(x)]
    assert shapes == [[1, 2], [0, 2], [0, 2]][: strategy.num_replicas_in_sync]


def open_augmented(files: str, **options: Any) -> Any:
    return tfdist.data.tfrecords(files, parse, augment=lambda sample, seed: sample, **options)


def open_compressed(files: str, **options: Any) -> Any:
    """Read in sequence: a worker that has begun with other records must still find the one that stands in."""
    records = [example(number) for number in range(5)]
    path = files.replace("*.tfrecord", "all.gz")
    with tf.io.TFRecordWriter(path, tf.io.TFRecordOptions(compression_type="GZIP")) as writer:
        for record in records:
            writer.write(record)
    return tfdist.data.tfrecords(path, parse, **options)


def open_arrays(files: str, **options: Any) -> Any:
    numbers = np.arange(5.0, dtype=np.float32)
    return tfdist.data.arrays(np.stack([numbers, -numbers], axis=1), np.arange(5), **options)


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("open_files", [open_parsed, open_features, open_augmented, open_compressed, open_arrays])
def test_sample_0_stands_in_where_a_replica_has_none(tmp_path: Path, open_files: Open, shuffle: bool) -> None:
    strategy = mirrored(3)
    files = write_shards(tmp_path, [2, 3])
    batches = distribute(open_files(files, batch_size=4, shuffle=shuffle, seed=3, strategy=strategy), strategy)
    for _ in range(2):
        steps = [tf.nest.map_structure(strategy.experimental_local_results, step) for step in batches]
        assert [[int(samples) for samples in step.samples] for step in steps] == [[2, 1, 1], [1, 0, 0]]
        pieces = [piece.numpy().tolist() for step in steps for piece in step.data[1]]
        assert pieces[4:] == [[0], [0]]
        assert sorted(sum(pieces[:4], [])) == list(range(5))
        assert [piece.numpy().tolist() for piece in steps[1].data[0][1:]] == [[[0.0, 0.0]]] * 2


def numbers_of(
    samples: int, batch_size: int, replicas: int = 1, replica_ids: Sequence[int] = (0,)
) -> SampleIndices:
    steps, span = EpochSteps(samples, batch_size, replicas), EpochSpan(samples, batch_size)
    return SampleIndices(EpochOrder(samples), steps, span, replica_ids, 0, EpochCounter())


def test_several_features_make_a_dict(tmp_path: Path) -> None:
    features = {**FEATURES, "z": tf.io.FixedLenFeature([], tf.int64, default_value=5)}
    source = ExampleSamples(write_shards(tmp_path, [2]), features, "y")
    ((x, y),) = list(source.batches(numbers_of(2, batch_size=2)))
    assert (sorted(x), x["z"].numpy().tolist(), y.numpy().tolist()) == (["x", "z"], [5, 5], [0, 1])


def open_files_of(folder: Path) -> set[str]:
    """The files in a folder that this process has open."""
    links = [os.path.join("/proc/self/fd", number) for number in os.listdir("/proc/self/fd")]
    return {os.readlink(link) for link in links if os.path.lexists(link)} & {str(path) for path in folder.iterdir()}


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="where a process cannot see its open files")
@pytest.mark.parametrize("open_source", [open_parsed, open_features])
def test_files_are_closed_with_the_dataset(tmp_path: Path, open_source: Open) -> None:
    files = write_shards(tmp_path, [3, 4])
    batches = open_source(files, batch_size=2, shuffle=True, seed=1)
    iterator = iter(batches)
    next(iterator)
    del batches
    gc.collect()
    assert len(list(iterator)) == 3, "an iterator keeps its dataset"
    assert len(open_files_of(tmp_path)) == 2
    del iterator
    gc.collect()
    assert not open_files_of(tmp_path)


def test_only_asked_records_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker reads its own pieces, and no others to fill up the smaller ones."""
    source = ParsedRecordSamples(write_shards(tmp_path, [10]), parse)
    read: list[int] = []
    original = TFRecordReader.read

    def recorded(reader: TFRecordReader, indices: np.ndarray) -> Any:
        read.extend(indices.tolist())
        return original(reader, indices)

    monkeypatch.setattr(TFRecordReader, "read", recorded)
    # The second of two replicas, and of three batches of which the last has nothing for it.
    numbers = numbers_of(10, batch_size=4, replicas=2, replica_ids=[1])
    assert [y.numpy().tolist() for _, y in source.batches(numbers)] == [[2, 3], [6, 7], [9]]
    assert set(read) == {2, 3, 6, 7, 9}


def test_csv(strategy: tf.distribute.Strategy, tmp_path: Path) -> None:
    for name, numbers in (("a", range(0, 4)), ("b", range(4, 10))):
        rows = "".join(f"{i},{i * 2},{i * 3}\n" for i in numbers)
        (tmp_path / f"{name}.csv").write_text("y,double,triple\n" + rows)
    batches = tfdist.data.csv(str(tmp_path / "*.csv"), "y", ["triple"], batch_size=4, strategy=strategy)
    x, y = flat(batches, strategy)
    assert (x.tolist(), y.tolist()) == ([[i * 3.0] for i in range(10)], list(range(10)))


def test_text(strategy: tf.distribute.Strategy, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("".join(f"{i}\t{'long ' * i}text\n" for i in range(7)))
    batches = tfdist.data.text(tmp_path / "a.txt", tf.strings.length, batch_size=3, strategy=strategy)
    x, y = flat(batches, strategy)
    assert (x.tolist(), y.tolist()) == ([i * 5 + 4 for i in range(7)], list(range(7)))
    strings, _ = flat(tfdist.data.text(tmp_path / "a.txt", batch_size=3, strategy=strategy), strategy)
    assert strings[1] == b"long text"


def write_image(path: Path, value: int, size: tuple[int, int]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(tf.io.encode_png(np.full((*size, 3), value, np.uint8)).numpy())


def test_images(strategy: tf.distribute.Strategy, tmp_path: Path) -> None:
    for number in range(5):
        write_image(tmp_path / f"class{number % 2}" / f"{number}.png", number, (8 + number, 10))
    batches = tfdist.data.images(tmp_path, (4, 6), batch_size=4, strategy=strategy)
    x, y = flat(batches, strategy)
    assert x.shape == (5, 4, 6, 3)
    assert x[:, 0, 0, 0].tolist() == [0, 2, 4, 1, 3]
    assert y.tolist() == [0, 0, 0, 1, 1]
    grey, _ = flat(tfdist.data.images(tmp_path, (4, 6), 1, batch_size=4, strategy=strategy), strategy)
    assert grey.shape == (5, 4, 6, 1)


def test_npz(strategy: tf.distribute.Strategy, tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x_test=np.arange(5.0), y_test=np.arange(5))
    x, _ = flat(tfdist.data.npz(tmp_path / "a.npz", "test", batch_size=2, strategy=strategy), strategy)
    assert x.tolist() == [0, 1, 2, 3, 4]


# What goes wrong while reading arrives as an error of TensorFlow's.


def failure(batches: Any) -> str:
    with pytest.raises(tf.errors.OpError) as raised:
        list(batches)
    found = data_error_in(raised.value)
    assert found is not None, raised.value
    return str(found)


@pytest.mark.parametrize("open_files", [open_parsed, open_features])
def test_a_damaged_record_is_named(strategy: tf.distribute.Strategy, tmp_path: Path, open_files: Open) -> None:
    path = write_tfrecord(tmp_path / "bad", [example(number) for number in range(6)])
    data = bytearray(path.read_bytes())
    data[-6] ^= 1
    path.write_bytes(data)
    message = failure(open_files(str(path), batch_size=4, strategy=strategy))
    place = path.stat().st_size - len(example(5)) - 16
    assert message == f"{path}, record 5, at byte {place}: the data's checksum is wrong, the file is damaged."


def test_a_record_that_lacks_a_feature_is_named(strategy: tf.distribute.Strategy, tmp_path: Path) -> None:
    path = write_tfrecord(tmp_path / "bad", [example(0), example(1), example(2, label=False), example(3)])
    message = failure(open_features(str(path), batch_size=4, strategy=strategy))
    reason = "Feature: y (data type: int64) is required but could not be found."
    assert message == f"{path}, record 2 does not fit the features: {reason}"


def test_a_record_that_the_users_function_refuses(strategy: tf.distribute.Strategy, tmp_path: Path) -> None:
    path = write_tfrecord(tmp_path / "bad", [example(0), example(1, label=False)])
    message = failure(open_parsed(str(path), batch_size=4, strategy=strategy))
    assert message.startswith(f"{path}, record 1 does not fit the parse function: ")
    assert "Feature: y (data type: int64) is required but could not be found." in message
    assert "Feature: y (data type: int64) is required" in message


@pytest.mark.parametrize("open_files", [open_parsed, open_features])
def test_a_first_record_that_does_not_fit_is_found_before_the_run(tmp_path: Path, open_files: Open) -> None:
    path = write_tfrecord(tmp_path / "bad", [example(0, label=False)])
    with pytest.raises(DataError, match=r"bad, record 0 does not fit .*Feature: y"):
        open_files(str(path), batch_size=4)


def test_an_unreadable_image_is_named(strategy: tf.distribute.Strategy, tmp_path: Path) -> None:
    write_image(tmp_path / "a" / "1.png", 1, (64, 64))
    noise = np.random.default_rng(1).integers(0, 256, (64, 64, 3), np.uint8)
    whole = tf.io.encode_png(noise).numpy()
    (tmp_path / "a" / "2.png").write_bytes(whole[: len(whole) // 2])
    message = failure(tfdist.data.images(tmp_path, (4, 4), batch_size=4, strategy=strategy))
    assert message.startswith(f"Cannot read the image {tmp_path}/a/2.png: ")


def test_a_bad_csv_row_is_named(strategy: tf.distribute.Strategy, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a,y\n1,2\n3\n")
    message = failure(tfdist.data.csv(tmp_path / "a.csv", "y", batch_size=4, strategy=strategy))
    assert message == f"{tmp_path}/a.csv, line 3: expected 2 columns (a, y), found 1. Received: 3"


def test_a_text_that_the_users_function_refuses(strategy: tf.distribute.Strategy, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("0\t1\n1\t2\n0\tthree\n1\t4\n")
    batches = tfdist.data.text(tmp_path / "a.txt", tf.strings.to_number, batch_size=4, strategy=strategy)
    message = failure(batches)
    assert message.startswith(f"{tmp_path}/a.txt, line 3 does not fit the vectorize function: ")
    assert "could not correctly convert string: three" in message


def test_a_text_without_a_label_is_named(strategy: tf.distribute.Strategy, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("1\tfine\nno label\n")
    message = failure(tfdist.data.text(tmp_path / "a.txt", batch_size=4, strategy=strategy))
    assert message.startswith(f"{tmp_path}/a.txt, line 2: expected an integer label")


@pytest.mark.parametrize(
    ("options", "received"),
    [
        ({}, "none of them"),
        ({"features": FEATURES}, "features"),
        ({"parse": parse, "label": "y"}, "parse, label"),
        ({"parse": parse, "features": FEATURES, "label": "y"}, "parse, features, label"),
    ],
)
def test_tfrecords_are_parsed_in_one_way(tmp_path: Path, options: dict[str, Any], received: str) -> None:
    with pytest.raises(UsageError, match=f"either parse, or features and label. Received: {received}"):
        tfdist.data.tfrecords(write_shards(tmp_path, [1]), batch_size=1, **options)


def test_a_label_that_is_no_feature(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="Expected label to be one of several features: x, y. Received: z"):
        tfdist.data.tfrecords(write_shards(tmp_path, [1]), features=FEATURES, label="z", batch_size=1)


def test_corrupt_records_are_skipped_with_the_same_steps(strategy: tf.distribute.Strategy, tmp_path: Path) -> None:
    path = tmp_path / "a.tfrecord"
    with tf.io.TFRecordWriter(str(path)) as writer:
        for label in range(9):
            writer.write(str(label).encode())
    data = bytearray(path.read_bytes())
    data[2 * 17 + 12] ^= 1
    path.write_bytes(data)

    def number_of(record: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        return tf.zeros([1]), tf.strings.to_number(record, tf.int32)

    batches = tfdist.data.tfrecords(str(path), number_of, batch_size=4, strategy=strategy, on_corrupt="skip")
    assert flat(batches, strategy)[1].tolist() == [0, 1, 3, 4, 5, 6, 7, 8]
    assert len(list(batches)) == 2
    with pytest.raises(UsageError, match="on_corrupt: expected stop or skip. Received: 'ignore'"):
        tfdist.data.tfrecords(str(path), number_of, batch_size=4, on_corrupt="ignore")
