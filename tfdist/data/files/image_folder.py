"""A folder of images, with a folder in it for each class."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tfdist.data.files.file_patterns import check_local
from tfdist.data.files.remote_files import stamp_of
from tfdist.data.sample_source import ArraySpec
from tfdist.errors import DataError
from tfdist.plan.plan_inputs import FileSizes

SUFFIXES = (".bmp", ".gif", ".jpeg", ".jpg", ".png")


@dataclass(frozen=True)
class ImageFiles:
    """The images of a folder.

    Attributes:
        folder: The folder of the class folders.
        classes: The names of the class folders, sorted; a label is a place in them.
        paths: The images, class by class, sorted in each.
        labels: int64 of shape [images].
    """

    folder: Path
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
        return cls(root, classes, tuple(path for paths in found for path in paths), labels.astype(np.int64))

    def __len__(self) -> int:
        return len(self.paths)

    @property
    def specs(self) -> tuple[ArraySpec, ...]:
        """See `SampleReader.specs`."""
        return ArraySpec("string"), ArraySpec("int64")

    def read(self, indices: NDArray[np.int64]) -> tuple[NDArray[np.object_], NDArray[np.int64]]:
        """Returns the paths, bytes as objects of shape [k], and the labels, [k], of the images `indices` [k]."""
        paths = np.array([os.fsencode(self.paths[index]) for index in indices.tolist()], np.object_)
        return paths, self.labels[indices]

    def name(self, index: int) -> str:
        """Names an image for errors: its path."""
        return str(self.paths[index])

    def class_sizes(self) -> Iterator[FileSizes]:
        """The sizes of each class, whose images stand together in the order."""
        sizes = np.array([stamp_of(str(path)).size for path in self.paths], np.int64)
        counts = np.bincount(self.labels, minlength=len(self.classes)).tolist()
        bytes_ = np.bincount(self.labels, weights=sizes, minlength=len(self.classes)).astype(np.int64).tolist()
        for name, count, size in zip(self.classes, counts, bytes_, strict=True):
            yield FileSizes(str(self.folder / name), count, size)


def _files_below(folder: Path) -> Iterator[Path]:
    """The files of a folder and of the folders in it that are not hidden; raises OSError where one cannot be read."""

    def fail(error: OSError) -> None:
        raise error  # pathlib takes such a folder for an empty one

    for place, folders, names in os.walk(folder, onerror=fail):
        folders[:] = [name for name in folders if _shown(Path(name))]
        yield from (Path(place, name) for name in names)


def _shown(path: Path) -> bool:
    return not path.name.startswith(".")


def _is_image(path: Path) -> bool:
    return _shown(path) and path.suffix.lower() in SUFFIXES and path.is_file()
