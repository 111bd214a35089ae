from __future__ import annotations

from pathlib import Path

import pytest

from tfdist.data.image_files import ImageFiles
from tfdist.errors import DataError


def touch(root: Path, *names: str) -> None:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(b"")


def test_classes_are_numbered_by_name(tmp_path: Path) -> None:
    touch(
        tmp_path, "dog/1.png", "cat/b.JPG", "cat/a.jpeg", "cat/deep/c.bmp", "cat/notes.txt", "cat/.x.png", ".git/1.png"
    )
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
