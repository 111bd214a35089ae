"""Files that HDF5 writes: on a disk that may be full, in memory, and in memory with zeros that take none.

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
import numpy as np
from numpy.typing import NDArray

from tfdist.rundir.direct_io import ALIGNMENT


class _FileInMemory(io.BytesIO):
    """A new file. It is an `io.BytesIO` in type only, because Keras's store takes one or a path."""

    def __init__(self) -> None:
        super().__init__()
        self._size = 0
        self._place = 0

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._place = {os.SEEK_SET: 0, os.SEEK_CUR: self._place, os.SEEK_END: self._size}[whence] + offset
        return self._place

    def tell(self) -> int:
        return self._place


class MemoryFile(_FileInMemory):
    """A new file, all of whose bytes are in memory.

    This also keeps HDF5 away from disks: libhdf5 keeps what it could not write, tries again while it closes the file,
    and may end the process by a segmentation fault when that fails too (seen with a full disk).

    Args:
        room: The probable size in bytes; a larger file is moved.
    """

    def __init__(self, room: int) -> None:
        super().__init__()
        self._memory = aligned_memory(room)

    @property
    def content(self) -> NDArray[np.uint8]:
        """The whole file, as memory to read and write; valid until something is appended."""
        return self._memory[: self._size]

    def write(self, content: Any) -> int:
        source = np.frombuffer(content, np.uint8)
        end = self._place + len(source)
        self._reach(self._place)
        self._make_room(end)
        self._memory[self._place : end] = source
        self._place, self._size = end, max(self._size, end)
        return len(source)

    def readinto(self, buffer: Any) -> int:
        into = np.frombuffer(buffer, np.uint8)
        source = self.content[self._place : self._place + len(into)]
        into[: len(source)] = source
        self._place += len(source)
        return len(source)

    def truncate(self, size: int | None = None) -> int:
        size = self._place if size is None else size
        self._reach(size)
        self._size = size
        return size

    def _reach(self, size: int) -> None:
        """Fills the file with zeros up to `size`, as any file that is written beyond its end."""
        if size > self._size:
            self._make_room(size)
            self._memory[self._size : size] = 0
            self._size = size

    def _make_room(self, size: int) -> None:
        if size > len(self._memory):
            larger = aligned_memory(max(size, len(self._memory) * 3 // 2))
            larger[: self._size] = self.content
            self._memory = larger


def aligned_memory(size: int) -> NDArray[np.uint8]:
    """Uninitialised memory, uint8 [size], aligned such that a disk is written from it without a copy."""
    memory = np.empty(size + ALIGNMENT, np.uint8)
    begin = -memory.ctypes.data % ALIGNMENT
    return memory[begin : begin + size]


_PAGE = 1 << 16
"""Bytes that are kept together, unless all of them are zeros."""


class SparseFile(_FileInMemory):
    """A new file, of whose pages those are in memory that are not all zeros."""

    def __init__(self) -> None:
        super().__init__()
        self._pages: dict[int, NDArray[np.uint8]] = {}

    @property
    def size(self) -> int:
        """Its bytes."""
        return self._size

    def bytes_between(self, begin: int, end: int) -> NDArray[np.uint8]:
        """A copy of a range of it."""
        found = np.zeros(end - begin, np.uint8)
        for page, there, here in _pages(begin, end):
            if page in self._pages:
                found[here] = self._pages[page][there]
        return found

    def write(self, content: Any) -> int:
        source = np.frombuffer(content, np.uint8)
        begin, end = self._place, self._place + len(source)
        for page, there, here in _pages(begin, end):
            if page in self._pages or source[here].any():
                self._pages.setdefault(page, np.zeros(_PAGE, np.uint8))[there] = source[here]
        self._place, self._size = end, max(self._size, end)
        return len(source)

    def readinto(self, buffer: Any) -> int:
        into = np.frombuffer(buffer, np.uint8)
        end = max(self._place, min(self._size, self._place + len(into)))
        into[: end - self._place] = self.bytes_between(self._place, end)
        count, self._place = end - self._place, end
        return count

    def truncate(self, size: int | None = None) -> int:
        size = self._place if size is None else size
        if size < self._size:
            self._pages = {page: held for page, held in self._pages.items() if page * _PAGE < size}
            if size // _PAGE in self._pages:
                self._pages[size // _PAGE][size % _PAGE :] = 0
        self._size = size
        return size


def _pages(begin: int, end: int) -> list[tuple[int, slice, slice]]:
    """The pages of a range: the number of each, and which of its bytes are which of the range's."""
    found = []
    for page in range(begin // _PAGE, -(-end // _PAGE)):
        first, last = max(begin, page * _PAGE), min(end, (page + 1) * _PAGE)
        found.append((page, slice(first - page * _PAGE, last - page * _PAGE), slice(first - begin, last - begin)))
    return found


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
