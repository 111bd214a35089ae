"""The manifest of a folder of kept outputs: what it says comes back, and what is damaged is refused."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from tfdist.config.data_sections import NpzSource
from tfdist.errors import DataError
from tfdist.training.inference.outputs.kept_outputs import MANIFEST_FILE, KeptFile, KeptOutputs, identity
from tfdist.training.inference.outputs.output_formats import OutputColumn

COLUMNS = (OutputColumn("p", "float32", (3,)), OutputColumn("bins", "int32"), OutputColumn("words", "string", (2,)))
KEPT = KeptOutputs(
    5,
    COLUMNS,
    (KeptFile("outputs-0.tfrecord", 2, 3), KeptFile("outputs-1.tfrecord", 3, 4)),
    {"p": "logits"},
    "run/model.keras",
    77,
    {"format": "npz", "split": "train", "sharding": "auto"},
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for file in KEPT.files:
        (tmp_path / file.name).write_bytes(b"x" * file.size)
    (tmp_path / MANIFEST_FILE).write_text(json.dumps(KEPT.to_json()))
    return tmp_path


def test_what_was_written_is_read(folder: Path) -> None:
    assert KeptOutputs.read(folder) == KEPT


def test_the_section_that_reads_it(folder: Path) -> None:
    section = KEPT.section(folder)
    assert section.files == [str(folder / file.name) for file in KEPT.files] and section.label == "index"
    assert section.features is not None
    assert {name: (feature.dtype, tuple(feature.shape)) for name, feature in section.features.items()} == {
        "index": ("int64", ()),
        "p": ("float32", (3,)),
        "bins": ("int64", ()),
        "words": ("string", (2,)),
    }


@pytest.mark.parametrize(
    "changes",
    [
        {"version": 2},
        {"samples": 6},
        {"samples": -5},
        {"checksum": "77"},
        {"columns": []},
        {"files": []},
        {"files": [{"name": "../a.tfrecord", "samples": 5, "size": 3}]},
        {"files": [{"name": "a.tfrecord", "samples": 5}]},
        {"columns": [{"name": "p", "dtype": "object", "shape": [3]}]},
        {"columns": [{"name": "p", "dtype": "float32", "shape": [0]}]},
        {"columns": [{"name": "index", "dtype": "float32", "shape": [3]}]},
        {"columns": [{"name": "p", "dtype": "float32", "shape": [3]}] * 2},
        {"gives": []},
        {"data": None},
    ],
)
def test_what_is_no_manifest(changes: dict[str, Any], folder: Path) -> None:
    (folder / MANIFEST_FILE).write_text(json.dumps(KEPT.to_json() | changes))
    with pytest.raises(DataError, match=r"outputs.json cannot be read: .*Expected a folder that `tfdist data predict"):
        KeptOutputs.read(folder)


def test_folders_without_outputs_and_files_that_have_changed(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"has no kept outputs: there is no outputs.json in it"):
        KeptOutputs.read(tmp_path / "elsewhere")
    (folder / "outputs-1.tfrecord").write_bytes(b"xx")
    with pytest.raises(DataError, match=r"outputs-1.tfrecord has 2 bytes, and had 4. Expected a folder"):
        KeptOutputs.read(folder)
    (folder / "outputs-1.tfrecord").unlink()
    with pytest.raises(DataError, match=r"outputs-1.tfrecord is missing"):
        KeptOutputs.read(folder)


def test_splits_of_one_file_are_other_data() -> None:
    train, test = (NpzSource(path="a.npz", split=split, shuffle=split == "train") for split in ("train", "test"))
    assert identity(train) == KEPT.data == identity(dataclasses.asdict(train)) != identity(test)
