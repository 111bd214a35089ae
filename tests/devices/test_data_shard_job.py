"""Shards hold the samples that they were made of; a second start continues the first."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import yaml

from tfdist.config.data_sections import CsvSource, ImagesSource, NpzSource, SourceConfig, TextSource
from tfdist.config.section import build
from tfdist.data import from_config
from tfdist.data.ops.record_parser import data_error_in
from tfdist.data.tools import shard_job, shard_writer
from tfdist.data.tools.process_pool import TaskProgress, TaskResult
from tfdist.data.tools.shard_job import ShardJob, ShardRequest
from tfdist.data.tools.shard_manifest import config_text
from tfdist.errors import DataError, UsageError

SAMPLES = 23


@pytest.fixture(autouse=True)
def _in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """The work without its processes, which would each load TensorFlow."""

    def run(make: Callable[..., Any], argument: Any, tasks: Sequence[Any], processes: int) -> Iterator[Any]:
        work = make(argument)
        for task in tasks:
            advanced: list[int] = []
            result = work(task, advanced.append)
            yield from map(TaskProgress, advanced)
            yield TaskResult(task, result)

    monkeypatch.setattr(shard_job, "run_in_processes", run)


def sources(folder: Path) -> dict[str, SourceConfig]:
    """A source of every format."""
    random = np.random.default_rng(1)
    np.savez(folder / "a.npz", x_train=random.normal(size=(SAMPLES, 3, 2)), y_train=random.integers(9, size=SAMPLES))
    np.savez(folder / "s.npz", x_train=[f"ä{i}" for i in range(SAMPLES)], y_train=random.normal(size=(SAMPLES, 1)))
    rows = random.normal(size=(SAMPLES, 3)).tolist()
    (folder / "a.csv").write_text("a,b,y\n" + "".join(f"{a},{b},{y}\n" for a, b, y in rows))
    (folder / "a.txt").write_text("".join(f"{i % 3}\ttext {i}\n" for i in range(SAMPLES)))
    for name, count in (("cat", 13), ("dog", 10)):
        (folder / "images" / name).mkdir(parents=True)
        for place in range(count):
            pixels = random.integers(256, size=(4 + place, 6, 3), dtype=np.uint8)
            encode = tf.io.encode_png if place % 2 else tf.io.encode_jpeg
            (folder / "images" / name / f"{place}.png").write_bytes(encode(pixels).numpy())
    return {
        "npz": NpzSource(path=str(folder / "a.npz"), split="train"),
        "strings": NpzSource(path=str(folder / "s.npz"), split="train"),
        "csv": CsvSource(files=str(folder / "a.csv"), label="y", columns=["b", "a"]),
        "text": TextSource(files=str(folder / "a.txt")),
        "vectorized": TextSource(files=str(folder / "a.txt"), vectorize="tensorflow.strings.length"),
        "images": ImagesSource(path=str(folder / "images"), size=[5, 7], channels=3),
    }


def make(section: SourceConfig, folder: Path, **more: Any) -> tuple[dict[str, Any], int]:
    """Makes shards; returns the section that reads them, and how many samples were written for it."""
    written: list[int] = []
    with ShardJob(ShardRequest(section, folder / "shards", "train", **more)) as made:
        left = made.left
        made.run(written.append)
        assert sum(written) == left and made.left == 0
        return yaml.safe_load(config_text(made.section()))["data"]["train"], left


def read(section: SourceConfig) -> list[tuple[Any, Any]]:
    batches, samples, *_ = from_config(section, batch_size=5)
    found = [(x, y) for xs, ys in batches for x, y in zip(xs.numpy(), ys.numpy(), strict=True)]
    assert len(found) == samples
    return found


def shown(folder: Path) -> list[str]:
    """The files that are not hidden, as indices are."""
    return sorted(path.name for path in folder.iterdir() if not path.name.startswith("."))


@pytest.mark.parametrize("name", ["npz", "strings", "csv", "text", "vectorized", "images"])
def test_what_is_read_back_is_the_source(tmp_path: Path, name: str) -> None:
    source = sources(tmp_path)[name]
    section, _ = make(source, tmp_path, shards=4)
    expected, found = read(source), read(build(SourceConfig, section))
    assert len(list((tmp_path / "shards").glob("*.tfrecord"))) == 4
    for (x, y), (same_x, same_y) in zip(expected, found, strict=True):
        np.testing.assert_array_equal(x, same_x)
        np.testing.assert_array_equal(y, same_y)


@pytest.mark.parametrize("names", [("train", "train-more"), ("train-more", "train")])
@pytest.mark.parametrize("folder", ["shards", "shards[1]"])
def test_the_section_reads_the_shards_of_its_name_alone(tmp_path: Path, folder: str, names: Sequence[str]) -> None:
    source, shards = sources(tmp_path)["csv"], tmp_path / folder
    sections = []
    for name in names:
        with ShardJob(ShardRequest(source, shards, name, shards=2)) as made:
            made.run(lambda _: None)
            sections.append(made.section())
    assert len(list(shards.glob("*.tfrecord"))) == 4
    assert [len(read(build(SourceConfig, section))) for section in sections] == [SAMPLES] * 2


def test_samples_of_several_shapes_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As of a vectorize function that pads to the longest of the texts that it is given."""
    (tmp_path / "my_padding.py").write_text(
        "import tensorflow as tf\ndef pad(texts):\n    return tf.strings.bytes_split(texts).to_tensor()\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(shard_writer, "READ_TOGETHER", 10)
    sources(tmp_path)
    source = TextSource(files=str(tmp_path / "a.txt"), vectorize="my_padding.pad")
    with pytest.raises(DataError, match=r"00000-of-00001.* of another kind .*\[7\].*one type and shape.*\[6\].* pads"):
        make(source, tmp_path, shards=1)
    assert not list((tmp_path / "shards").glob("*.tfrecord"))


def test_images_are_written_as_they_are(tmp_path: Path) -> None:
    make(sources(tmp_path)["images"], tmp_path, shards=1)
    [record] = tf.data.TFRecordDataset(str(tmp_path / "shards/train-00000-of-00001.tfrecord")).take(1)
    [image] = tf.train.Example.FromString(record.numpy()).features.feature["x"].bytes_list.value
    assert image == (tmp_path / "images/cat/0.png").read_bytes()
    manifest = json.loads((tmp_path / "shards/train.shards.json").read_text())
    assert manifest["classes"] == ["cat", "dog"]


def test_a_second_start_makes_what_is_missing_alone(tmp_path: Path) -> None:
    source, shards = sources(tmp_path)["npz"], tmp_path / "shards"
    section, first = make(source, tmp_path, shards=4)
    for path in shards.glob("*.tfrecord"):
        os.utime(path, (0, 0))
    (shards / "train-00001-of-00004.tfrecord").unlink()
    os.truncate(shards / "train-00003-of-00004.tfrecord", 9)
    again, second = make(source, tmp_path)  # as many shards as before
    assert (section, first, second) == (again, SAMPLES, 6 + 5)
    kept = [path.name for path in shards.glob("*.tfrecord") if not path.stat().st_mtime]
    assert sorted(kept) == ["train-00000-of-00004.tfrecord", "train-00002-of-00004.tfrecord"]
    assert len(read(build(SourceConfig, again))) == SAMPLES


def test_a_start_after_a_failure_continues(tmp_path: Path) -> None:
    """The bad image is among the last: what was finished before it stays."""
    source, bad = sources(tmp_path)["images"], tmp_path / "images/dog/9.png"
    good = bad.read_bytes()
    bad.write_bytes(b"no image")
    with pytest.raises(DataError, match="9.png: this image cannot be decoded"):
        make(source, tmp_path, shards=4)
    assert shown(tmp_path / "shards") == [
        "train-00000-of-00004.tfrecord",
        "train-00001-of-00004.tfrecord",
        "train-00002-of-00004.tfrecord",
        "train.shards.json",
    ]
    bad.write_bytes(good)
    with pytest.raises(UsageError, match="its files have changed since"):
        make(source, tmp_path, shards=4)
    assert make(source, tmp_path, shards=4, overwrite=True)[1] == SAMPLES


@pytest.mark.parametrize("shards", [2, 5])
def test_shards_of_other_data_are_replaced_only_with_overwrite(tmp_path: Path, shards: int) -> None:
    found = sources(tmp_path)
    make(found["npz"], tmp_path, shards=4)
    with pytest.raises(UsageError, match="holds shards named train of something else: format: npz then, csv now"):
        make(found["csv"], tmp_path, shards=shards)
    make(found["csv"], tmp_path, shards=shards, overwrite=True)
    assert len(list((tmp_path / "shards").glob("*.tfrecord"))) == shards


def test_unknown_files_are_never_touched(tmp_path: Path) -> None:
    (tmp_path / "shards").mkdir()
    stranger = tmp_path / "shards/train-00000-of-00001.tfrecord"
    stranger.write_text("mine")
    with pytest.raises(UsageError, match="nothing says what it was made of"):
        make(sources(tmp_path)["npz"], tmp_path, overwrite=True)
    assert stranger.read_text() == "mine"


def test_a_manifest_that_names_other_files_removes_none(tmp_path: Path) -> None:
    source = sources(tmp_path)["npz"]
    make(source, tmp_path, shards=2)
    path, mine = tmp_path / "shards/train.shards.json", tmp_path / "shards/mine.csv"
    mine.write_text("mine")
    manifest = json.loads(path.read_text())
    path.write_text(json.dumps({**manifest, "inputs": "other", "sizes": {**manifest["sizes"], "mine.csv": 4}}))
    with pytest.raises(UsageError, match="it names 'mine.csv'. Expected files such as train-00000-of-00002.tfrecord"):
        make(source, tmp_path, shards=2, overwrite=True)
    assert mine.read_text() == "mine" and len(list((tmp_path / "shards").glob("*.tfrecord"))) == 2


def test_what_a_killed_start_left_is_removed(tmp_path: Path) -> None:
    (tmp_path / "shards").mkdir()
    left = ["train-00001-of-00002.tfrecord.unfinished", ".train.shards.0123abcd.tmp.json"]
    for name in [*left, "other-00001-of-00002.tfrecord.unfinished"]:
        (tmp_path / "shards" / name).touch()
    make(sources(tmp_path)["npz"], tmp_path, shards=2)
    assert shown(tmp_path / "shards") == [
        "other-00001-of-00002.tfrecord.unfinished",
        "train-00000-of-00002.tfrecord",
        "train-00001-of-00002.tfrecord",
        "train.shards.json",
    ]
    assert not list((tmp_path / "shards").glob(".*.json"))


def test_two_at_once(tmp_path: Path) -> None:
    request = ShardRequest(sources(tmp_path)["npz"], tmp_path / "shards", "train")
    with ShardJob(request), pytest.raises(UsageError, match="Another `tfdist data shard` is writing into"):
        ShardJob(request)


def test_places_that_cannot_be_written(tmp_path: Path) -> None:
    section = sources(tmp_path)["npz"]
    (tmp_path / "file").touch()
    for directory in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(UsageError, match="Expected DEST to be a directory that this user can write to"):
            ShardJob(ShardRequest(section, directory, "train"))


def test_more_shards_than_samples(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="at most one for each of 23 samples. Received: --shards 24"):
        make(sources(tmp_path)["npz"], tmp_path, shards=24)


def test_an_image_in_a_record_that_is_none_is_named(tmp_path: Path) -> None:
    section, _ = make(sources(tmp_path)["images"], tmp_path, shards=1)
    path = next((tmp_path / "shards").glob("*.tfrecord"))
    records = [record.numpy() for record in tf.data.TFRecordDataset(str(path))]
    example = tf.train.Example.FromString(records[3])
    example.features.feature["x"].bytes_list.value[0] = b"no image"
    with tf.io.TFRecordWriter(str(path)) as writer:
        for place, record in enumerate(records):
            writer.write(example.SerializeToString() if place == 3 else record)
    with pytest.raises(tf.errors.OpError) as caught:
        read(build(SourceConfig, section))
    error = data_error_in(caught.value)
    misfit = "train-00000-of-00001.tfrecord, record 3 does not fit the features: Unknown image file format"
    assert error is not None and misfit in str(error)
