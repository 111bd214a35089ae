"""A file that HDF5 writes to, which hides the disk's errors from it.

libhdf5 keeps what it could not write and tries again while it closes the file; when that fails, too, it may end the
process by a segmentation fault (seen with a full disk). So it is told that all went well. What the disk does not take
stays in memory, in case that HDF5 reads it again, and whoever opened the file asks for the error afterwards.
"""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any


class UnfailingFile(io.BytesIO):
    """A new file. Of `io.BytesIO` it has only the type, which is what Keras's store takes besides a path.

    Args:
        path: Where; what is there is replaced.

    Raises:
        OSError: It cannot be made.
    """

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666)
        self._place = 0
        self._kept: list[tuple[int, bytes]] = []
        self._error: OSError | None = None

    def check(self) -> None:
        """Raises the first `OSError` that was hidden, if there is one."""
        if self._error is not None:
            raise self._error

    def close(self) -> None:
        """Closes the file; a second time it does nothing."""
        if not self.closed:
            os.close(self._descriptor)
        super().close()

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._place, os.SEEK_END: self._size()}[whence]
        self._place = base + offset
        return self._place

    def tell(self) -> int:
        return self._place

    def write(self, content: Any) -> int:
        place, left = self._place, memoryview(content).cast("B")
        self._place += len(left)
        size = len(left)
        try:
            while left and self._error is None:
                written = os.pwrite(self._descriptor, left, place)
                place, left = place + written, left[written:]
        except OSError as error:
            self._error = error
        if left:
            self._kept.append((place, bytes(left)))
        return size

    def readinto(self, buffer: Any) -> int:
        into = memoryview(buffer).cast("B")
        count = max(0, min(len(into), self._size() - self._place))
        begin, end = self._place, self._place + count
        content = os.pread(self._descriptor, count, begin)
        into[:count] = content.ljust(count, b"\0")
        for place, kept in self._kept:
            first, last = max(begin, place), min(end, place + len(kept))
            if first < last:
                into[first - begin : last - begin] = kept[first - place : last - place]
        self._place = end
        return count

    def truncate(self, size: int | None = None) -> int:
        size = self._place if size is None else size
        try:
            os.ftruncate(self._descriptor, size)
        except OSError as error:
            self._error = self._error or error
        return size

    def flush(self) -> None:
        """Nothing is held back; whoever needs it on the disk syncs it."""

    def _size(self) -> int:
        ends = [place + len(kept) for place, kept in self._kept]
        return max([os.fstat(self._descriptor).st_size, *ends])
