from __future__ import annotations

import os
from pathlib import Path

import pytest

from tfdist.data.files.file_patterns import matching
from tfdist.errors import DataError


def write(folder: Path, *names: str) -> list[Path]:
    for name in names:
        (folder / name).write_text(name)
    return [folder / name for name in names]


def test_patterns_and_paths_are_sorted_and_named_once(tmp_path: Path) -> None:
    a, b, c = write(tmp_path, "a.txt", "b.txt", "c.csv")
    assert matching([str(c), str(tmp_path / "*.txt"), a]) == (a, b, c)


def test_a_file_that_is_named_in_several_ways_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (path,) = write(tmp_path, "a.txt")
    monkeypatch.chdir(tmp_path)
    assert matching(["a.txt", "./a.txt", "./*.txt", str(path), f"{tmp_path}//a.txt"]) == (Path("a.txt"),)


@pytest.mark.parametrize("pattern", ["*/*.txt", "**/*.txt", "b/*.txt", "*/deep/*.txt"])
def test_a_folder_that_cannot_be_read_is_not_taken_for_an_empty_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pattern: str
) -> None:
    for folder in ("a/deep", "b/deep"):
        (tmp_path / folder).mkdir(parents=True)
        write(tmp_path, f"{folder}/1.txt", f"{folder}/../1.txt")
    denied = tmp_path / ("b/deep" if "deep" in pattern else "b")
    original = os.scandir

    def scandir(path: str | os.PathLike[str]) -> object:
        if Path(path) == denied:
            raise PermissionError(13, os.strerror(13), str(path))
        return original(path)

    monkeypatch.setattr(os, "scandir", scandir)
    with pytest.raises(DataError, match=f"Cannot read {denied}: Permission denied"):
        matching(str(tmp_path / pattern))


def test_a_file_in_a_folder_that_cannot_be_entered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (path,) = write(tmp_path, "a.txt")

    def refuse(name: str, **_: object) -> None:
        raise PermissionError(13, os.strerror(13), name)

    monkeypatch.setattr(os, "stat", refuse)
    with pytest.raises(DataError, match="Cannot read .*a.txt: Permission denied"):
        matching(path)


def test_a_file_whose_name_looks_like_a_pattern(tmp_path: Path) -> None:
    (path,) = write(tmp_path, "train[1].txt")
    assert matching(path) == (path,)


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("gone.txt", "No such file: .*gone.txt"),
        ("gone-*.txt", "No file matches .*gone-\\*.txt"),
        (".", "is a directory"),
    ],
)
def test_what_cannot_be_found(tmp_path: Path, pattern: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        matching(str(tmp_path / pattern))


def test_an_empty_list() -> None:
    with pytest.raises(DataError, match="an empty list"):
        matching([])


def test_files_of_other_file_systems_are_refused(tmp_path: Path) -> None:
    (path,) = write(tmp_path, "a.txt")
    with pytest.raises(DataError, match="gs://bucket/b.csv is on another file system"):
        matching([str(path), "gs://bucket/b.csv"])


@pytest.mark.parametrize("pattern", ["pipe.csv", "*.csv"])
def test_a_pipe_is_no_data(pattern: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.csv")
    with pytest.raises(DataError, match="pipe.csv is not a regular file. Expected one"):
        matching(str(tmp_path / pattern))
