"""Memory for the results of operations in Python, which TensorFlow takes over without a copy and gives back."""

from __future__ import annotations

import weakref
from collections import defaultdict

import numpy as np
from numpy.typing import NDArray

_ALIGNMENT = 64
"""Bytes. TensorFlow copies what is not aligned for its vector instructions."""

_KEPT_FROM_BYTES = 64 << 10
"""Smaller arrays come from Python's own pools."""


class OutputBuffers:
    """Hands out arrays, and uses their memory again once nobody holds the array any more.

    New memory for a large array costs more than to fill it: the system has to find and to clear its pages. TensorFlow
    holds the array that an operation returns as long as any tensor has its memory.
    """

    def __init__(self) -> None:
        self._buffers: dict[int, list[_Buffer]] = defaultdict(list)

    def take(self, size: int, dtype: np.dtype) -> NDArray:
        """An array of `size` elements of any values, of one dimension."""
        count = size * dtype.itemsize
        if count < _KEPT_FROM_BYTES:
            return np.empty(size, dtype)
        kept = self._buffers[count]
        buffer = next((each for each in kept if each.is_free), None)
        if buffer is None:
            buffer = _Buffer(count)
            kept.append(buffer)
        return buffer.lend(dtype)


class _Buffer:
    """Aligned memory, and the array that has it."""

    def __init__(self, count: int) -> None:
        memory = np.empty(count + _ALIGNMENT, np.uint8)
        start = -memory.ctypes.data % _ALIGNMENT
        self._bytes = memory[start : start + count]
        self._lent: weakref.ref[NDArray] | None = None

    @property
    def is_free(self) -> bool:
        return self._lent is None or self._lent() is None

    def lend(self, dtype: np.dtype) -> NDArray:
        array = self._bytes.view(dtype)
        self._lent = weakref.ref(array)
        return array
