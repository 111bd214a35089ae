from __future__ import annotations

import os
from pathlib import Path

import pytest

from tfdist.data.files.image_folder import ImageFiles
from tfdist.errors import DataError


def touch(root: Path, *names: str) -> None:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(b"")


def test_classes_are_numbered_by_name(tmp_path: Path) -> None:
    touch(tmp_path, "dog/1.png", "cat/b.JPG", "cat/a.jpeg", "cat/deep/c.bmp")
    touch(tmp_path, "cat/notes.txt", "cat/.x.png", ".git/1.png", "cat/.thumbnails/a.jpeg", "cat/deep/.git/1.png")
    (tmp_path / "bird").mkdir()
    images = ImageFiles.find(tmp_path)
    assert images.classes == ("bird", "cat", "dog")
    assert [path.name for path in images.paths] == ["a.jpeg", "b.JPG", "c.bmp", "1.png"]
    assert images.labels.tolist() == [1, 1, 1, 2]


@pytest.mark.parametrize("names", [[], ["1.png"], ["cat/notes.txt"]])
def test_no_image(tmp_path: Path, names: list[str]) -> None:
    touch(tmp_path, *names)
    with pytest.raises(DataError, match="No image below .* Expected one folder a class"):
        ImageFiles.find(tmp_path)


@pytest.mark.parametrize("name", ["gone", "1.png"])
def test_no_folder(tmp_path: Path, name: str) -> None:
    touch(tmp_path, "1.png")
    with pytest.raises(DataError, match=f"Cannot read .*{name}"):
        ImageFiles.find(tmp_path / name)


@pytest.mark.parametrize("name", ["cat", "cat/deep"])
def test_a_folder_that_cannot_be_read_is_not_taken_for_an_empty_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    touch(tmp_path, "cat/1.png", "cat/deep/2.png", "dog/1.png")
    original = os.scandir

    def scandir(path: str | os.PathLike[str]) -> object:
        if Path(path) == tmp_path / name:
            raise PermissionError(13, os.strerror(13), str(path))
        return original(path)

    monkeypatch.setattr(os, "scandir", scandir)
    with pytest.raises(DataError, match=f"Cannot read .*/{name}: Permission denied"):
        ImageFiles.find(tmp_path)
