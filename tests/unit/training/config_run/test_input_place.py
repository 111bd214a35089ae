from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tfdist.config.data_sections import (
    CsvSource,
    GeneratorSource,
    ImagesSource,
    NpzSource,
    SourceConfig,
    TfrecordSource,
)
from tfdist.data.formats import npz_files
from tfdist.training.config_run import input_place
from tfdist.training.config_run.input_place import Place, place_of


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    np.savez(tmp_path / "a.npz", x_train=np.zeros((500, 2), "float32"), y_train=np.zeros(500))
    for name in ("a-1", "a-2", "b"):
        (tmp_path / name).write_bytes(bytes(500))
    (tmp_path / "images" / "cat").mkdir(parents=True)
    for index in range(300):
        (tmp_path / "images" / "cat" / f"{index}.png").write_bytes(bytes(10))
    return tmp_path


def tfrecords(*files: object) -> SourceConfig:
    return TfrecordSource(files=[str(file) for file in files], parse="my.parse")


def test_arrays_are_in_memory_unless_they_are_mapped(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    section = NpzSource(path=str(folder / "a.npz"), split="train")
    assert place_of(section, memory=1) is Place.MEMORY
    monkeypatch.setattr(npz_files, "MAPPED_FROM_BYTES", 1000)
    assert place_of(section, memory=1) is not Place.MEMORY
    assert place_of(section) is Place.KEPT


@pytest.mark.parametrize(
    ("memory", "local", "place"),
    [(2000, "ext4", Place.KEPT), (1900, "ext4", Place.DISK), (1900, None, Place.NETWORK), (2000, None, Place.KEPT)],
)
def test_files_are_kept_in_memory_that_is_twice_as_large(
    memory: int, local: str | None, place: Place, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(input_place, "local_file_system", lambda path: local)
    assert place_of(tfrecords(folder / "a-*"), memory) is place


def test_the_size_of_many_files_is_that_of_some(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    section = ImagesSource(path=str(folder / "images"), size=[4, 4])
    monkeypatch.setattr(input_place, "local_file_system", lambda path: "ext4")
    monkeypatch.setattr(input_place, "_MOST_STATS", 7)
    assert place_of(section, memory=6000) is Place.KEPT
    assert place_of(section, memory=5990) is Place.DISK


@pytest.mark.parametrize(
    ("section", "place"),
    [
        (tfrecords("gs://bucket/a-*"), Place.REMOTE),
        (tfrecords("gs://bucket/a-*", "b"), Place.REMOTE),
        (GeneratorSource(function="my.samples"), Place.MEMORY),
        # What was there when the run began may be gone at its end.
        (tfrecords("/none/a-*"), Place.DISK),
        (CsvSource(files="/none/a.csv", label="y"), Place.DISK),
        (NpzSource(path="/none/a.npz", split="train"), Place.DISK),
        (ImagesSource(path="/none", size=[4, 4]), Place.DISK),
    ],
)
def test_what_is_elsewhere_or_gone(section: Any, place: Place) -> None:
    assert place_of(section) is place
