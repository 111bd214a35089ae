from __future__ import annotations

import gzip
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tfdist.config.data_sections import (
    FORMATS,
    CsvSource,
    FeatureConfig,
    GeneratorSource,
    ImagesSource,
    NpzSource,
    TextSource,
    TfrecordSource,
)
from tfdist.data.format_registry import format_module, measure
from tfdist.data.formats import npz_files
from tfdist.errors import DataError

Write = Callable[..., Path]
FEATURES = {"x": FeatureConfig(dtype="float32", shape=[8, 2]), "y": FeatureConfig(dtype="int64")}
TEXT = FEATURES | {"x": FeatureConfig(dtype="string")}


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_of_a_config_has_a_module(name: str) -> None:
    module = format_module(name)
    assert all(map(callable, (module.open_source, module.measure, module.sample_specs)))


def test_an_unknown_format() -> None:
    with pytest.raises(TypeError, match="Expected a format that data/ reads: npz, .*. Received: arrow"):
        format_module("arrow")


def test_npz(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    np.savez(path, x_train=np.zeros((10, 4)), y_train=np.zeros(10, np.int64))
    sizes = measure(NpzSource(path=str(path), split="train"))
    assert (sizes.samples, sizes.sample_bytes, sizes.held_bytes, sizes.whole) == (10, 4 * 4 + 8, 240, True)
    assert 0 < sizes.size < path.stat().st_size  # without the archive's own


@pytest.mark.parametrize(("save", "whole", "held"), [(np.savez, False, 10 * 8), (np.savez_compressed, True, 10 * 24)])
def test_a_large_array_stays_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, save: Callable[..., None], whole: bool, held: int
) -> None:
    monkeypatch.setattr(npz_files, "MAPPED_FROM_BYTES", 400)
    save(tmp_path / "a.npz", x_train=np.zeros((10, 4)), y_train=np.zeros(10, np.int64))
    sizes = measure(NpzSource(path=str(tmp_path / "a.npz"), split="train"))
    assert (sizes.whole, sizes.held_bytes, sizes.sample_bytes) == (whole, held, 24)


def test_records_that_are_left_out_are_no_samples(write_tfrecord: Write) -> None:
    first, second = write_tfrecord("a", [bytes(10)] * 3), write_tfrecord("b", [bytes(10)] * 2)
    damaged = bytearray(second.read_bytes())
    damaged[12] ^= 1
    second.write_bytes(damaged)
    section = TfrecordSource(files=[str(first), str(second)], parse="a.b", on_corrupt="skip")
    assert [file.samples for file in measure(section).files] == [3, 1]


def test_a_generator_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "made.py").write_text(
        "import random\nimport numpy as np\ndef some(lane):\n    random.seed(lane)\n"
        "    for label in range(lane):\n        yield np.zeros(4, np.float32), np.int64(label)\n"
    )
    sizes = measure(GeneratorSource(function="made.some", lanes=4, shuffle_buffer=8))
    assert [(file.name, file.samples) for file in sizes.files] == [(f"made.some({lane})", lane) for lane in range(4)]
    assert (sizes.samples, sizes.sample_bytes, sizes.size) == (6, 4 * 4 + 8, 6 * 24)
    assert sizes.sequence is not None and sizes.sequence.why == "made by a function"
    assert sizes.random_calls == ("random.seed (made.py:4)",)


def test_an_augmentation_that_draws_numbers_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "augmentations.py").write_text("import random\ndef noise(sample, seed):\n    return random.random()\n")
    (tmp_path / "a.csv").write_text("a,y\n1,3\n")
    sizes = measure(CsvSource(files="a.csv", label="y", augment="augmentations.noise"))
    assert sizes.random_calls == ("random.random (augmentations.py:3)",)


@pytest.mark.parametrize(
    ("reading", "sample_bytes", "estimated"),
    [
        ({"features": FEATURES, "label": "y"}, 8 * 2 * 4 + 8, False),
        ({"features": TEXT, "label": "y"}, 20, True),  # as the records are
        ({"parse": "tensorflow.strings.length"}, 20, True),
    ],
)
def test_tfrecord(write_tfrecord: Write, reading: dict[str, Any], sample_bytes: int, estimated: bool) -> None:
    first, second = write_tfrecord("a.tfrecord", [bytes(10)] * 3), write_tfrecord("b.tfrecord", [bytes(50)])
    sizes = measure(TfrecordSource(files=[str(first), str(second)], **reading))
    assert [(file.name, file.samples, file.size) for file in sizes.files] == [
        (str(first), 3, 3 * 26),
        (str(second), 1, 66),
    ]
    assert (sizes.sample_bytes, sizes.estimated, sizes.whole) == (sample_bytes, estimated, False)
    assert sizes.held_bytes == (4 + 2) * struct.calcsize("q")  # a start each, and where each file ends


def test_csv_and_text(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a,b,y\n1,2,3\n4,5,6\n")
    (tmp_path / "a.txt").write_text("0\tone\n1\tthree\n")
    csv = measure(CsvSource(files=str(tmp_path / "a.csv"), label="y"))
    assert (csv.samples, csv.sample_bytes, csv.estimated) == (2, 12, False)
    text = measure(TextSource(files=str(tmp_path / "a.txt")))
    assert (text.samples, text.sample_bytes, text.estimated) == (2, 7, False)
    assert measure(TextSource(files=str(tmp_path / "a.txt"), vectorize="tensorflow.strings.length")).estimated


def test_images_are_counted_by_class(tmp_path: Path) -> None:
    for name, count in (("cat", 2), ("dog", 3), ("empty", 0)):
        (tmp_path / name).mkdir()
        for place in range(count):
            (tmp_path / name / f"{place}.png").write_bytes(bytes(10 + place))
    sizes = measure(ImagesSource(path=str(tmp_path), size=[4, 5], channels=1))
    assert [(Path(file.name).name, file.samples, file.size) for file in sizes.files] == [
        ("cat", 2, 21),
        ("dog", 3, 33),
        ("empty", 0, 0),
    ]
    assert sizes.sample_bytes == 4 * 4 * 5 + 8


@pytest.mark.parametrize(
    ("arrays", "expected"),
    [
        ({"x_train": np.zeros(3), "y_train": np.zeros(2)}, "the same number of samples. Received: 3 and 2"),
        ({"x_train": np.zeros(0), "y_train": np.zeros(0)}, "expected at least one sample"),
    ],
)
def test_arrays_that_do_not_fit(tmp_path: Path, arrays: dict[str, Any], expected: str) -> None:
    np.savez(tmp_path / "a.npz", **arrays)
    with pytest.raises(DataError, match=expected):
        measure(NpzSource(path=str(tmp_path / "a.npz"), split="train"))


def test_compressed_files_are_read_in_sequence(write_tfrecord: Write) -> None:
    for name, count in (("a", 3), ("b", 5)):
        path = write_tfrecord(name, [bytes(40)] * count)
        path.write_bytes(gzip.compress(path.read_bytes()))
    files = str(path.parent / "*")
    sizes = measure(TfrecordSource(files=files, features=FEATURES, label="y", interleave=1, sharding="none"))
    assert [file.samples for file in sizes.files] == [3, 5]
    assert sizes.sequence is not None and sizes.shares
    assert (sizes.sequence.why, sizes.sequence.lanes.number, sizes.sample_bytes) == ("GZIP-compressed", 1, 72)
    assert measure(TfrecordSource(files=files, parse="a.b")).estimated
