from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tfdist.data.fingerprints import Fingerprint, of_arrays, of_files
from tfdist.errors import DataError


def files_in(folder: Path) -> Fingerprint:
    return of_files(sorted(folder.iterdir()), 7)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    for name in "abc":
        (folder / name).write_bytes(name.encode() * 20_000)
    return folder


def test_a_copy_at_another_place_is_the_same(data: Path, tmp_path: Path) -> None:
    shutil.copytree(data, tmp_path / "copy")
    assert files_in(tmp_path / "copy") == files_in(data)
    assert str(files_in(data)) == "3 files (a, b, c), 7 samples"


def flip(path: Path, place: int) -> None:
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize(
    "change",
    [
        lambda folder: (folder / "b").rename(folder / "d"),
        lambda folder: (folder / "b").unlink(),
        lambda folder: (folder / "b").write_bytes(b"b" * 20_001),
        lambda folder: flip(folder / "b", 0),
        lambda folder: flip(folder / "b", 10_000),
        lambda folder: flip(folder / "b", -1),
    ],
    ids=["name", "missing", "size", "beginning", "middle", "end"],
)
def test_what_differs_is_seen(data: Path, change: Callable[[Path], None]) -> None:
    before = files_in(data)
    change(data)
    assert files_in(data) != before


def test_folders_count_where_they_are_part_of_the_data(tmp_path: Path) -> None:
    for folder in ("cat", "dog"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "1.png").write_bytes(b"image")
    cat, dog = tmp_path / "cat" / "1.png", tmp_path / "dog" / "1.png"
    assert of_files([cat], 1) == of_files([dog], 1)
    assert of_files([cat], 1, tmp_path) != of_files([dog], 1, tmp_path)


def test_a_file_that_is_gone(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="Cannot read .*gone"):
        of_files([tmp_path / "gone"], 1)


def test_arrays() -> None:
    x, y = np.arange(200.0).reshape(100, 2), np.arange(100)
    found = of_arrays([x, y], 100)
    assert str(found) == "arrays of the shapes (100, 2), (100,), 100 samples"
    assert of_arrays([x.copy(), y], 100) == found
    assert of_arrays([x[::-1], y], 100) != found
    words = np.array(["a", "b"], object)
    assert of_arrays([words], 2) == of_arrays([words.copy()], 2) != of_arrays([words[::-1]], 2)
