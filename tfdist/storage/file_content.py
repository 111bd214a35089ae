"""Content of a file that somebody else may be writing: read as it is sent.

A map of the file would end the process by SIGBUS where the file becomes smaller.
"""

from __future__ import annotations

import errno
import os
from typing import BinaryIO


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
