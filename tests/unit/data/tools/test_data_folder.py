from __future__ import annotations

import os
from pathlib import Path

import pytest

from tfdist.data.tools.data_folder import files_in, names_of
from tfdist.errors import DataError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("b-00000-of-00001", "a.tfrecord", "deep/c.csv", "README.md", "deep/d.PNG", "b.shards.json"):
        (tmp_path / "x" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "x" / name).touch()
    for name in (".a.tfrecord.tfindex", ".git/config"):
        (tmp_path / "x" / name).parent.mkdir(exist_ok=True)
        (tmp_path / "x" / name).touch()
    return tmp_path / "x"


def names(folder: Path, paths: tuple[Path, ...]) -> list[str]:
    return [str(path.relative_to(folder)) for path in paths]


def test_a_folder_stands_for_its_files_of_data(folder: Path) -> None:
    found = files_in([str(folder)])
    assert names(folder, found.paths) == ["a.tfrecord", "b-00000-of-00001", "deep/c.csv"]
    assert names(folder, found.left_out) == ["README.md", "deep/d.PNG"]


def test_other_formats_are_left_out(folder: Path) -> None:
    found = files_in([str(folder)], [".csv"])
    assert names(folder, found.paths) == ["a.tfrecord", "b-00000-of-00001"]
    assert names(folder, found.left_out) == ["README.md", "deep/c.csv", "deep/d.PNG"]


def test_a_manifest_is_left_out_of_a_pattern_and_all_else_is_read(folder: Path) -> None:
    found = files_in([f"{folder}/[aRb]*"])
    assert names(folder, found.paths) == ["README.md", "a.tfrecord", "b-00000-of-00001"]
    assert found.left_out == ()


def test_a_file_that_is_named_twice_is_one(folder: Path) -> None:
    found = files_in([str(folder / "deep"), str(folder / "deep" / "c.csv")])
    assert names(folder, found.paths) == ["deep/c.csv"]


def test_nothing_to_read(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"only \*.shards.json, which say what shards were made of"):
        files_in([f"{folder}/*.json"])
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="empty has no file to read. Expected .* Received: an empty directory"):
        files_in([str(tmp_path / "empty")])
    (folder / "deep" / "c.csv").unlink()
    with pytest.raises(DataError, match="deep has no file to read. Expected .* Received: d.PNG"):
        files_in([str(folder / "deep")])
    with pytest.raises(DataError, match="^No such file: "):
        files_in([str(tmp_path / "nothing")])


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_folder_that_cannot_be_read(folder: Path) -> None:
    (folder / "deep").chmod(0)
    with pytest.raises(DataError, match="Cannot read .*deep: Permission denied"):
        files_in([str(folder)])
    (folder / "deep").chmod(0o700)


def test_only_the_first_names_are_shown() -> None:
    assert names_of([Path(f"x/{n}.md") for n in range(7)]) == "0.md, 1.md, 2.md, 3.md, 4.md and 2 more"
