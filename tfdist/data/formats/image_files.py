"""Folders of images, one folder a class."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tfdist.data.files.file_patterns import check_local
from tfdist.errors import DataError

SUFFIXES = (".bmp", ".gif", ".jpeg", ".jpg", ".png")


@dataclass(frozen=True)
class ImageFiles:
    """The images of a folder.

    Attributes:
        classes: The names of the class folders, sorted; a label is a place in them.
        paths: The images, class by class, sorted in each.
        labels: int64 of shape [images].
    """

    classes: tuple[str, ...]
    paths: tuple[Path, ...]
    labels: NDArray[np.int64]

    @classmethod
    def find(cls, folder: str | os.PathLike[str]) -> ImageFiles:
        """Lists the images below `folder`; other files are left out, and what is hidden or in a hidden folder.

        Raises:
            DataError: The folder or one below it cannot be read, there are no class folders, or no image in them.
        """
        check_local(folder)
        root = Path(folder)
        try:
            classes = tuple(sorted(entry.name for entry in root.iterdir() if entry.is_dir() and _shown(entry)))
            found = [sorted(path for path in _files_below(root / name) if _is_image(path)) for name in classes]
        except OSError as error:
            raise DataError(f"Cannot read {error.filename or root}: {error.strerror or error}.") from error
        if not any(found):
            raise DataError(
                f"No image below {root}. Expected one folder a class with files that end in {', '.join(SUFFIXES)}. "
                f"Received: {len(classes)} folder(s)."
            )
        labels = np.repeat(np.arange(len(classes)), [len(paths) for paths in found])
        return cls(classes, tuple(path for paths in found for path in paths), labels.astype(np.int64))

    def __len__(self) -> int:
        return len(self.paths)


def _files_below(folder: Path) -> Iterator[Path]:
    """The files of a folder and of those in it that are not hidden; raises OSError where one cannot be read."""

    def fail(error: OSError) -> None:
        raise error  # pathlib takes such a folder for an empty one

    for place, folders, names in os.walk(folder, onerror=fail):
        folders[:] = [name for name in folders if _shown(Path(name))]
        yield from (Path(place, name) for name in names)


def _shown(path: Path) -> bool:
    return not path.name.startswith(".")


def _is_image(path: Path) -> bool:
    return _shown(path) and path.suffix.lower() in SUFFIXES and path.is_file()
