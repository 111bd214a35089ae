"""A file in memory that HDF5 writes, in which zeros take no memory: values of which only the places matter."""

from __future__ import annotations

import io
import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

_PAGE = 1 << 16
"""Bytes that are kept together, unless all of them are zeros."""


class SparseFile(io.BytesIO):
    """A new file. It is an `io.BytesIO` in type only: see `MemoryFile`, which has all of its bytes."""

    def __init__(self) -> None:
        super().__init__()
        self._pages: dict[int, NDArray[np.uint8]] = {}
        self._size = 0
        self._place = 0

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

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._place = {os.SEEK_SET: 0, os.SEEK_CUR: self._place, os.SEEK_END: self._size}[whence] + offset
        return self._place

    def tell(self) -> int:
        return self._place

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
