"""A file in memory that HDF5 writes, and whose values are then overwritten in place."""

from __future__ import annotations

import io
import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tfdist.rundir.direct_io import ALIGNMENT


class MemoryFile(io.BytesIO):
    """A new file. It is an `io.BytesIO` in type only, because Keras's store takes one or a path.

    This also keeps HDF5 away from disks: libhdf5 keeps what it could not write, tries again while it closes the file,
    and may end the process by a segmentation fault when that fails too (seen with a full disk).

    Args:
        room: The probable size in bytes; a larger file is moved.
    """

    def __init__(self, room: int) -> None:
        super().__init__()
        self._memory = aligned_memory(room)
        self._size = 0
        self._place = 0

    @property
    def content(self) -> NDArray[np.uint8]:
        """The whole file, as memory to read and write; valid until something is appended."""
        return self._memory[: self._size]

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._place = {os.SEEK_SET: 0, os.SEEK_CUR: self._place, os.SEEK_END: self._size}[whence] + offset
        return self._place

    def tell(self) -> int:
        return self._place

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
