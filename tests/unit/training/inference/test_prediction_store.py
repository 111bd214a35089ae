from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tfdist.errors import DataError, RunDirError, UsageError
from tfdist.training.inference.outputs.output_formats import OutputColumn
from tfdist.training.inference.prediction_store import (
    MANIFEST_FILE,
    Part,
    PredictionManifest,
    PredictionStore,
    part_name,
    parts_folder,
)

COLUMNS = (OutputColumn("p", "float32", (3,)), OutputColumn("name", "string"))
REQUEST = {"model": "a", "samples": 10}
MANIFEST = PredictionManifest(REQUEST, COLUMNS, (Part(part_name(0), 0, 4, 100, 7), Part(part_name(4), 4, 9, 90, 8)))


def test_it_is_read_as_it_was_written(tmp_path: Path) -> None:
    (tmp_path / "m.json").write_text(json.dumps(MANIFEST.to_json()))
    assert PredictionManifest.read(tmp_path / "m.json") == MANIFEST
    assert MANIFEST.done == 9 and PredictionManifest(REQUEST).done == 0
    assert PredictionManifest.read(tmp_path / "absent.json") is None


def test_what_is_different() -> None:
    assert MANIFEST.differences(REQUEST) == []
    assert MANIFEST.differences({"model": "b", "format": "npz"}) == [
        "model: a then, b now",
        "samples: 10 then, None now",
        "format: None then, npz now",
    ]


def part(**changes: Any) -> list[dict[str, Any]]:
    return [{"name": part_name(0), "start": 0, "stop": 4, "size": 100, "crc32": 7, **changes}]


@pytest.mark.parametrize(
    "changes",
    [
        {"version": 0},
        {"work": []},
        {"columns": []},  # parts of nothing
        {"parts": []},  # columns of nothing
        {"parts": part(name="../part-000000000000.npz")},
        {"parts": part(name="a.npz")},
        {"parts": part(stop=0)},
        {"parts": part(size=True)},
        {"parts": part(crc32=-1)},
        {"parts": part(more=1)},
        {"parts": part(name=part_name(1), start=1)},  # sample 0 is missing
        {"columns": [{"name": "a", "dtype": "object", "shape": []}]},
        {"columns": [{"name": "a", "dtype": "bool", "shape": [-1]}]},
        {"columns": [{"name": "a", "dtype": "bool", "shape": []}] * 2},
        {"columns": [{"name": 1, "dtype": "bool", "shape": []}]},
    ],
)
def test_what_is_no_manifest(changes: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "m.json").write_text(json.dumps({**MANIFEST.to_json(), **changes}))
    with pytest.raises(UsageError, match="does not say what the parts beside it are"):
        PredictionManifest.read(tmp_path / "m.json")


WORK = {"model": "a"}


@contextlib.contextmanager
def opened(folder: Path, work: dict[str, str] = WORK, *, overwrite: bool = False) -> Iterator[PredictionStore]:
    with contextlib.closing(PredictionStore(folder, work, overwrite=overwrite)) as store:
        yield store


def texts(*values: bytes) -> NDArray:
    array = np.empty(len(values), np.object_)
    array[:] = values
    return array


def outputs(start: int, stop: int) -> dict[str, NDArray]:
    numbers = np.arange(start, stop)
    p = np.stack([numbers, -numbers], 1).astype(np.float32)
    return {"p": p, "name": texts(*(b"\0" * number for number in numbers.tolist()))}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = parts_folder(tmp_path / "out.npz")
    with opened(folder) as store:
        store.add(outputs(0, 3))
        store.add(outputs(3, 4))
    return folder


def test_it_goes_on_behind_what_is_there(folder: Path) -> None:
    with opened(folder) as store:
        assert store.done == 4
        assert store.columns == (OutputColumn("p", "float32", (2,)), OutputColumn("name", "string"))
        store.add(outputs(4, 9))
        blocks = list(store.blocks())
    assert [start for start, _ in blocks] == [0, 3, 4]
    for place, expected in enumerate(outputs(0, 9).values()):
        received = np.concatenate([arrays[place] for _, arrays in blocks])
        assert received.tolist() == expected.tolist() and received.dtype == expected.dtype


@pytest.mark.parametrize("damage", [lambda path: path.unlink(), lambda path: path.write_bytes(b"x" * 10)])
def test_from_a_damaged_part_on_all_is_computed_again(damage: object, folder: Path) -> None:
    second = folder / "part-000000000003.npz"
    damage(second)  # type: ignore[operator]
    with opened(folder) as store:
        assert store.done == 3 and not second.exists()
    damage(folder / "part-000000000000.npz")  # type: ignore[operator]
    with opened(folder) as store:
        assert store.done == 0 and store.columns == ()
    assert not folder.exists()  # nothing is in it


def test_a_part_that_no_manifest_names_is_removed(folder: Path) -> None:
    (folder / "part-000000000004.npz").write_bytes(b"written, and not noted before the kill")
    with opened(folder) as store:
        assert store.done == 4
    assert sorted(path.name for path in folder.iterdir()) == [
        MANIFEST_FILE,
        "part-000000000000.npz",
        "part-000000000003.npz",
    ]


def test_parts_of_something_else(folder: Path) -> None:
    with pytest.raises(UsageError, match="parts of other predictions.*model: a then, b now.*--overwrite"):
        PredictionStore(folder, {"model": "b"})
    with opened(folder) as store:
        assert store.done == 4  # nothing was lost
    with opened(folder, {"model": "b"}, overwrite=True) as store:
        assert store.done == 0
        assert not list(folder.glob("part-*"))


def test_a_folder_of_the_users_own_stays(tmp_path: Path) -> None:
    folder = parts_folder(tmp_path / "out.npz")
    folder.mkdir()
    (folder / "thesis.txt").write_text("mine")
    with pytest.raises(UsageError, match="something else is there: thesis.txt"):
        PredictionStore(folder, WORK, overwrite=True)
    assert (folder / "thesis.txt").read_text() == "mine"


def test_two_at_once(folder: Path) -> None:
    with opened(folder), pytest.raises(UsageError, match="Another `tfdist predict` is writing into"):
        PredictionStore(folder, WORK)
    with opened(folder) as store:
        assert store.done == 4


def test_outputs_of_another_shape(folder: Path) -> None:
    with opened(folder) as store:
        with pytest.raises(DataError, match=r"from sample 4 on have other types or shapes.*p float32\[1\]"):
            store.add({"p": np.zeros([2, 1], np.float32), "name": texts(b"", b"")})
        assert store.done == 4


def test_removal_leaves_what_it_did_not_make(folder: Path) -> None:
    (folder / "notes.txt").write_text("mine")
    with opened(folder) as store:
        store.remove()
    assert [path.name for path in folder.iterdir()] == ["notes.txt"]


def test_no_folder_to_be_in(tmp_path: Path) -> None:
    with pytest.raises(RunDirError, match="there is no directory .*/absent.*--output"):
        PredictionStore(parts_folder(tmp_path / "absent" / "out.npz"), WORK)
