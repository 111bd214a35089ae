"""Memory for what is read: buffers that are used again, and bytes that are filled in place.

The system provides a large piece of new memory page by page, as each is first written to, which takes longer than
copying into it; and freed memory goes back to the system.
"""

from __future__ import annotations

import contextlib
import ctypes
import threading
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

LARGEST_KEPT = 16 << 20
"""Bytes; larger buffers are freed after their use."""


class BufferPool:
    """Lends buffers, one to each thread that asks. Safe to use from several threads."""

    def __init__(self) -> None:
        self._free: list[NDArray[np.uint8]] = []
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def lent(self, size: int) -> Iterator[NDArray[np.uint8]]:
        """Lends a buffer with undefined content, uint8 [size]."""
        with self._lock:
            buffer = self._free.pop() if self._free else None
        if buffer is None or len(buffer) < size:
            buffer = np.empty(size, np.uint8)
        try:
            yield buffer[:size]
        finally:
            if len(buffer) <= LARGEST_KEPT:
                with self._lock:
                    self._free.append(buffer)


def new_bytes(size: int) -> tuple[bytes, NDArray[np.uint8]]:
    """Returns a new bytes object with undefined content, and an array of its memory to write into, uint8 [size].

    The C function is made for this. The object must be filled before it is hashed or passed on, and must be held as
    long as the array is used.
    """
    make = ctypes.pythonapi.PyBytes_FromStringAndSize
    make.argtypes, make.restype = [ctypes.c_char_p, ctypes.c_ssize_t], ctypes.py_object
    data: bytes = make(None, size)
    address = np.frombuffer(data, np.uint8).ctypes.data
    return data, np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(address))
