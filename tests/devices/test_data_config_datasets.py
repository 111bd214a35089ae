"""Sections of a config become batches."""

from __future__ import annotations

import itertools
import tarfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from tfdist.config.data_sections import (
    CsvSource,
    FeatureConfig,
    GeneratorSource,
    ImagesSource,
    NpzSource,
    SourceConfig,
    TextSource,
    TfrecordSource,
    WebdatasetSource,
)
from tfdist.data import data_error_in, from_config
from tfdist.errors import ConfigError


def pairs(lane: int | None = None) -> Iterator[tuple[np.ndarray, int]]:
    """Endless samples, or the one of a lane."""
    for label in itertools.count() if lane is None else [lane]:
        yield np.full(3, label), label


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with two samples in every format."""
    np.savez(tmp_path / "a.npz", x_train=np.ones((2, 3)), y_train=np.arange(2))
    (tmp_path / "a.csv").write_text("a,b,y\n1,2,0\n3,4,1\n")
    (tmp_path / "a.txt").write_text("0\tone\n1\ttwo\n")
    with tf.io.TFRecordWriter(str(tmp_path / "a.tfrecord")) as writer:
        for label in (0, 1):
            value = tf.train.Feature(int64_list=tf.train.Int64List(value=[label]))
            features = tf.train.Features(feature={"x": value, "y": value})
            writer.write(tf.train.Example(features=features).SerializeToString())
    for name in ("cat", "dog"):
        (tmp_path / "images" / name).mkdir(parents=True)
        image = tf.io.encode_png(np.zeros((2, 2, 3), np.uint8)).numpy()
        (tmp_path / "images" / name / "1.png").write_bytes(image)
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        for label, name in enumerate(("cat", "dog")):
            (tmp_path / "label").write_text(str(label))
            archive.add(tmp_path / "images" / name / "1.png", f"{name}.png")
            archive.add(tmp_path / "label", f"{name}.cls")
    return tmp_path


def sections(folder: Path) -> dict[str, SourceConfig]:
    number = FeatureConfig(dtype="int64")
    records = str(folder / "*.tfrecord")
    return {
        "npz": NpzSource(path=str(folder / "a.npz"), split="train"),
        "csv": CsvSource(files=str(folder / "a.csv"), label="y"),
        "images": ImagesSource(path=str(folder / "images"), size=[4, 5], channels=1),
        "text": TextSource(files=[str(folder / "a.txt")]),
        "vectorized text": TextSource(files=str(folder / "a.txt"), vectorize="tensorflow.strings.length"),
        "features": TfrecordSource(files=records, features={"x": number, "y": number}, label="y"),
        "parsed": TfrecordSource(files=records, parse="tensorflow.strings.length"),
        "generator": GeneratorSource(function=f"{__name__}.pairs", samples=2),
        "webdataset": WebdatasetSource(
            files=str(folder / "a.tar"),
            features={"png": FeatureConfig(dtype="image", shape=[4, 5, 1]), "cls": number},
            label="cls",
        ),
        "lanes": GeneratorSource(function=f"{__name__}.pairs", lanes=2),
    }


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("npz", (2, 3)),
        ("csv", (2, 2)),
        ("images", (2, 4, 5, 1)),
        ("text", (2,)),
        ("vectorized text", (2,)),
        ("features", (2,)),
        ("generator", (2, 3)),
        ("lanes", (2, 3)),
        ("webdataset", (2, 4, 5, 1)),
    ],
)
def test_every_format(folder: Path, name: str, shape: tuple[int, ...]) -> None:
    batches, samples, *_ = from_config(sections(folder)[name], batch_size=2)
    ((x, y),) = list(batches)
    assert (samples, x.shape, y.numpy().tolist()) == (2, shape, [0, 1])


def test_records_that_a_function_parses(folder: Path) -> None:
    batches, samples, *_ = from_config(sections(folder)["parsed"], batch_size=2)
    (lengths,) = list(batches)
    assert (samples, lengths.shape) == (2, (2,))


def test_an_image_of_a_tar_file_that_cannot_be_decoded_is_named(folder: Path) -> None:
    section = sections(folder)["webdataset"]
    content = (folder / "a.tar").read_bytes()
    place = content.rindex(b"IHDR")
    (folder / "a.tar").write_bytes(content[:place] + b"????" + content[place + 4 :])
    batches = from_config(section, batch_size=1).batches
    with pytest.raises(tf.errors.OpError) as failed:
        list(batches)
    assert f"{folder / 'a.tar'}, sample 1 (dog) does not fit the features" in str(data_error_in(failed.value))


def test_shuffle_and_seed(folder: Path) -> None:
    np.savez(folder / "a.npz", x_train=np.arange(50), y_train=np.arange(50))
    section = NpzSource(path=str(folder / "a.npz"), split="train", shuffle=True)
    orders = [next(iter(from_config(section, 50, seed=seed)[0]))[1].numpy().tolist() for seed in (1, 1, 2)]
    assert orders[0] == orders[1] != orders[2]


def test_a_dotted_path_that_does_not_import(folder: Path) -> None:
    section = TextSource(files=str(folder / "a.txt"), vectorize="tensorflow.strings.lenght")
    with pytest.raises(ConfigError, match=r"data.validation.vectorize: .*did you mean tensorflow.strings.length"):
        from_config(section, batch_size=2, key="data.validation")
