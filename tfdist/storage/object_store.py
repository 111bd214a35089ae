"""The interface of all stores: whole objects, by URL. Their errors are `OSError`, as those of local files.

A map of the file would end the process by SIGBUS where the file becomes smaller.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Protocol


class LocalFileError(OSError):
    """A file of this machine cannot be read, or became smaller while it was."""


class FileContent:
    """The bytes that an open file has now; `len` and slices are those of bytes.

    Args:
        file: Stays open for as long as the content is read, by any threads.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._descriptor = file.fileno()
        self._size = os.fstat(self._descriptor).st_size

    def __len__(self) -> int:
        return self._size

    def __bytes__(self) -> bytes:
        return self[:]

    def __getitem__(self, part: slice) -> bytes:
        """The bytes of a part.

        Raises:
            LocalFileError: They cannot be read, or are not there any more.
        """
        start, stop, step = part.indices(self._size)
        assert step == 1, "parts of files have no gaps"
        blocks = []
        while start < stop:
            block = self._read(start, stop - start)
            blocks.append(block)
            start += len(block)
        return b"".join(blocks)

    def _read(self, start: int, size: int) -> bytes:
        try:
            block = os.pread(self._descriptor, size, start)
        except OSError as error:
            raise LocalFileError(error.errno, f"it cannot be read: {error.strerror}") from error
        if not block:
            raise LocalFileError(errno.ESTALE, "it became smaller while it was read")
        return block


MOST_OBJECT_BYTES = 1 << 47
"""More than any object has; S3 itself takes 50 TB."""

MOST_WHOLE_BYTES = 1 << 30
"""Of an object that is read by a `read` without a size; larger ones are read in parts."""


class NoAnswerError(OSError):
    """A store did not answer in time, or as one does that is overloaded: a later request may succeed."""


Content = bytes | memoryview | FileContent
"""The content of an object; a memoryview has uint8."""


@dataclass(frozen=True)
class ObjectStatus:
    """The status of an object.

    Attributes:
        size: Its bytes.
        modified_ns: When it was last written, in ns since 1970.
    """

    size: int
    modified_ns: int


class ObjectStore(Protocol):
    """Objects of one kind of URL. An object is written as a whole: others see all of it, or what was there before.

    Every call ends within a bound. What is not there raises `FileNotFoundError`, what is refused `PermissionError`;
    a bucket that does not exist, and what else fails, another `OSError`, never `FileNotFoundError`. A store
    that is out of order for a while raises `NoAnswerError`, where that can be told.
    """

    def status(self, url: str) -> ObjectStatus:
        """The status of an object."""

    def open(self, url: str) -> BinaryIO:
        """Opens an object for reading; it can be sought in."""

    def write(self, url: str, content: Content) -> None:
        """Writes an object, in place of one that is there."""

    def children(self, url: str) -> list[str]:
        """The names of what lies directly below a URL, folders among them."""

    def matching(self, pattern: str) -> list[str]:
        """The URLs of objects that match a pattern, in which `*`, `?` and `[...]` match no slash, and `**` any."""

    def make_folder(self, url: str) -> None:
        """Makes a folder, where the store has folders."""

    def remove(self, url: str) -> None:
        """Removes an object; one that is not there may be an error."""

    def remove_below(self, url: str) -> None:
        """Removes all objects below a URL."""


BLOCK_BYTES = 8 << 20


def upload(folder: Path, store: ObjectStore, url: str, last: Callable[[Path], bool] = lambda path: False) -> None:
    """Writes all files of a folder, and of the folders in it, below a URL, each as a whole.

    Args:
        folder: The folder.
        store: The store.
        url: What stands for the folder.
        last: Which files are written after all others, as those that name them.

    Raises:
        OSError: One cannot be read or written.
    """
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    for path in [*(path for path in files if not last(path)), *filter(last, files)]:
        name = path.relative_to(folder).as_posix()
        with path.open("rb") as file:
            store.write(f"{url}/{name}", FileContent(file))


def download(store: ObjectStore, urls: Sequence[str], folder: Path) -> list[Path]:
    """Copies objects into a folder, under the last parts of their names.

    Raises:
        OSError: One cannot be read or written.
    """
    copies = []
    for url in urls:
        copies.append(folder / url.rpartition("/")[2])
        with store.open(url) as source, copies[-1].open("wb") as target:
            while block := source.read(BLOCK_BYTES):
                target.write(block)
    return copies
