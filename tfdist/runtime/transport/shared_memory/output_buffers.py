"""Memory for the results of operations in Python, which TensorFlow takes over without a copy and gives back."""

from __future__ import annotations

import sys
import threading

import numpy as np
from numpy.typing import NDArray

_ALIGNMENT = 64
"""Bytes. TensorFlow copies what is not aligned for its vector instructions."""

_KEPT_FROM_BYTES = 64 << 10
"""Smaller arrays come from Python's own pools."""

SPARE_BYTES = 64 << 20
"""The least number of bytes that are kept though nobody holds them."""

SPARE_TIMES = 2
"""The multiple of the most memory held at once that is kept on top of that."""


def aligned_bytes(size: int) -> NDArray[np.uint8]:
    """Returns memory that a tensor can have without a copy, a part of its array's `base`."""
    memory = np.empty(size + _ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % _ALIGNMENT
    return memory[start : start + size]


def is_aligned(array: NDArray) -> bool:
    """Returns whether a tensor can have the memory of an array without a copy."""
    return bool(array.flags.c_contiguous) and array.ctypes.data % _ALIGNMENT == 0


class OutputBuffers:
    """Hands out arrays, and uses their memory again once nobody holds the array or a part of it any more.

    New memory for a large array costs more than to fill it: the system has to find and to clear its pages. TensorFlow
    holds the array that an operation returns as long as any tensor has its memory. Several threads may take some.

    Args:
        spare_bytes: How much memory is kept at least that nobody holds, where arrays of other sizes are taken.
        spare_times: How many times the most that was held at once is kept on top of that.
    """

    def __init__(self, spare_bytes: int = SPARE_BYTES, spare_times: int = SPARE_TIMES) -> None:
        self._spare_bytes, self._spare_times = spare_bytes, spare_times
        self._lock = threading.Lock()
        self._buffers: list[_Buffer] = []
        self._most_held = 0

    def take(self, size: int, dtype: np.dtype) -> NDArray:
        """An array of `size` elements of any values, of one dimension."""
        count = size * dtype.itemsize
        if count < _KEPT_FROM_BYTES:
            return np.empty(size, dtype)
        with self._lock:
            buffer = next((each for each in self._buffers if each.size == count and each.is_free), None)
            if buffer is None:
                self._make_room()
                buffer = _Buffer(count)
            else:
                self._buffers.remove(buffer)
            # In the order of their use.
            self._buffers.append(buffer)
            return buffer.view(dtype)

    def _make_room(self) -> None:
        """Gives up what was not used for long, where sizes come that do not come again."""
        free = [each for each in self._buffers if each.is_free]
        self._most_held = max(self._most_held, sum(each.size for each in self._buffers) - sum(e.size for e in free))
        spare = sum(each.size for each in free) - self._spare_bytes - self._spare_times * self._most_held
        for each in free:
            if spare <= 0:
                return
            self._buffers.remove(each)
            spare -= each.size


class _Buffer:
    """Aligned memory.

    Attributes:
        size: Bytes.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self._bytes = aligned_bytes(size)
        self._memory = self._bytes.base
        self._own_references = sys.getrefcount(self._memory)

    @property
    def is_free(self) -> bool:
        """True if there is no array but its own: numpy makes each, and each part of one, hold the memory itself."""
        return sys.getrefcount(self._memory) == self._own_references

    def view(self, dtype: np.dtype) -> NDArray:
        """All of it."""
        return self._bytes.view(dtype)
