"""Files that Keras has HDF5 write, on a disk that may be full: the error is raised when the file is closed.

libhdf5 keeps what it could not write and tries again while it closes the file, also where that happens as Python frees
its objects; where that fails, too, it may end the process by a segmentation fault (seen with a full disk).
"""

from __future__ import annotations

import contextlib
import functools
import io
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import h5py

_ATTRIBUTE = "_tfdist_disk_file"
_WRITING = {"w": "w+", "w-": "x+", "x": "x+", "r+": "r+"}
"""Modes of h5py that write -> those of Python."""


class DiskFile:
    """A file that HDF5 writes: after an error it takes all that comes, and keeps nothing of it.

    Args:
        path: Where it lies.
        mode: Python's.

    Raises:
        OSError: It cannot be opened.
    """

    def __init__(self, path: str, mode: str) -> None:
        self._file = io.FileIO(path, mode)
        self._size = os.fstat(self._file.fileno()).st_size
        self._error: OSError | None = None

    def close(self) -> None:
        """Closes it.

        Raises:
            OSError: Something could not be written, now or before.
        """
        self._try(self._file.close)
        if self._error is not None:
            raise self._error

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        # What was not written counts, too: HDF5 would find its file cut short.
        return self._file.seek(self._size + offset) if whence == os.SEEK_END else self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()

    def read(self, size: int = -1) -> bytes:
        return self._file.read(size) or b""

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        count = self._file.readinto(view) or 0
        view[count:] = bytes(len(view) - count)
        return len(view)

    def write(self, content: Any) -> int:
        view = memoryview(content).cast("B")
        place = self._file.tell()
        self._size = max(self._size, place + len(view))
        self._try(functools.partial(self._write, view))
        self._file.seek(place + len(view))
        return len(view)

    def truncate(self, size: int | None = None) -> int:
        self._size = self._file.tell() if size is None else size
        self._try(lambda: self._file.truncate(self._size))
        return self._size

    def flush(self) -> None:
        """Nothing waits."""

    def _write(self, view: memoryview) -> None:
        done = 0
        while done < len(view):
            done += self._file.write(view[done:]) or 0

    def _try(self, act: Callable[[], object]) -> None:
        if self._error is not None and act != self._file.close:
            return
        try:
            act()
        except OSError as error:
            self._error = self._error or error


@contextlib.contextmanager
def errors_at_the_end() -> Iterator[None]:
    """Inside, files that h5py opens by their path to write them raise what went wrong when they are closed."""
    opened, closed = h5py.File.__init__, h5py.File.close

    def init(self: Any, name: Any, mode: str = "r", driver: Any = None, *args: Any, **options: Any) -> None:
        if driver is not None or not isinstance(name, str | bytes | os.PathLike):
            opened(self, name, mode, driver, *args, **options)
            return
        mode = "r+" if mode == "a" and Path(os.fsdecode(name)).exists() else "w" if mode == "a" else mode
        if mode not in _WRITING:
            opened(self, name, mode, driver, *args, **options)
            return
        file = DiskFile(os.fsdecode(name), _WRITING[mode])
        # It is there now.
        mode = "w" if mode in ("w-", "x") else mode
        opened(self, name, mode, "fileobj", *args, fileobj=file, **options)
        setattr(self, _ATTRIBUTE, file)

    def close(self: Any) -> None:
        closed(self)
        file = self.__dict__.pop(_ATTRIBUTE, None)
        if file is not None:
            file.close()

    with mock.patch.object(h5py.File, "__init__", init), mock.patch.object(h5py.File, "close", close):
        yield
