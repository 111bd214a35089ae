"""A file without a name for values of one process: it is gone with the process, however that ends."""

from __future__ import annotations

import errno
import os
import resource
import shutil
import tempfile
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tfdist.errors import RunDirError
from tfdist.runtime.transport.shared_memory.output_buffers import OutputBuffers
from tfdist.text import format_bytes

_PIECE_BYTES = 64 << 20
"""Bytes that are read or written at once: a call moves less than 2 GiB."""

_SPARE_BYTES = 16 << 20
"""Memory for values of one size that is kept while one of another size is read."""


class ScratchFile:
    """Values behind one another in a file of a folder, each read and written as a whole.

    They are read and written, and not mapped into memory: pages of a mapping count as memory of the process, and a disk
    that fails would end it with a signal instead of an error.

    Args:
        folder: On the disk that is to hold them; it is there.

    Attributes:
        folder: The same.
        buffers: Memory for what functions read.

    Raises:
        RunDirError: The file cannot be made.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.buffers = OutputBuffers(_SPARE_BYTES, spare_times=0)
        self._end = self._reserved = 0
        try:
            self._file = tempfile.TemporaryFile(dir=folder, buffering=0)  # noqa: SIM115 - open as long as this is
        except OSError as error:
            raise RunDirError(f"{folder}: no file can be made in it for --offload optimizer:disk: {error}") from error

    def prepare(self, size: int, whose: str) -> None:
        """Takes room on the disk for what is to come.

        Args:
            size: Bytes.
            whose: What they are for, for the error.

        Raises:
            RunDirError: The disk has less.
        """
        try:
            if size:
                os.posix_fallocate(self._file.fileno(), self._reserved, size)
        except OSError as error:
            received, remedy = self._no_room(error, self._reserved + size)
            raise RunDirError(
                f"{self.folder}: --offload optimizer:disk expects room for {format_bytes(size, binary=True)} on its "
                f"disk, {whose}. Received: {error.strerror or error}; {received}. {remedy}, or give more workers a "
                "part each with --shard."
            ) from error
        self._reserved += size

    def _no_room(self, error: OSError, size: int) -> tuple[str, str]:
        """Returns how much there is for a file of so many bytes, and what gives it more."""
        if error.errno == errno.EFBIG:
            limit, _ = resource.getrlimit(resource.RLIMIT_FSIZE)
            if 0 <= limit < size:  # RLIM_INFINITY is negative
                allowed = f"a file of this process may have {format_bytes(limit, binary=True)}"
                return allowed, "Raise that limit (ulimit -f)"
        free = shutil.disk_usage(self.folder).free
        return f"{format_bytes(free, binary=True)} are free", "Give --run-dir a folder on a disk with more"

    def take(self, size: int, whose: str) -> int:
        """Returns where the next value is, for which room is taken unless it is already; what is read there first is
        zero.

        Args:
            size: Its bytes.
            whose: What they are for, for the error.

        Raises:
            RunDirError: The disk has less.
        """
        start, self._end = self._end, self._end + size
        self.prepare(max(0, self._end - self._reserved), whose)
        return start

    def read(self, start: int, shape: tuple[int, ...], dtype: np.dtype) -> NDArray:
        """The value of a shape and dtype that begins at `start`.

        Raises:
            OSError: The disk does not give it.
        """
        found = np.empty(shape, dtype)
        self.read_into(found.reshape(-1), start)
        return found

    def read_into(self, array: NDArray, start: int) -> None:
        """Reads what begins at `start` into an array of one dimension, contiguous.

        Raises:
            OSError: The disk does not give it.
        """
        left = array.view(np.uint8)
        while left.size:
            count = os.preadv(self._file.fileno(), [left[:_PIECE_BYTES].data], start)
            if not count:
                raise OSError(f"{self.folder}: the file of --offload optimizer:disk ends before what was written")
            left, start = left[count:], start + count

    def write(self, start: int, value: NDArray) -> None:
        """Writes a value from `start` on.

        Raises:
            OSError: The disk does not take it.
        """
        left = np.ascontiguousarray(value).reshape(-1).view(np.uint8)
        while left.size:
            count = os.pwrite(self._file.fileno(), left[:_PIECE_BYTES].data, start)
            left, start = left[count:], start + count
