"""Tests of the memory for results: who holds what."""

from __future__ import annotations

import numpy as np

from tfdist.runtime.transport.shared_memory.output_buffers import OutputBuffers

LARGE = 100_000
FLOAT = np.dtype(np.float32)


def test_memory_is_used_again_once_nobody_holds_the_array() -> None:
    buffers = OutputBuffers()
    first = buffers.take(LARGE, FLOAT)
    place = first.ctypes.data
    assert place % 64 == 0
    second = buffers.take(LARGE, FLOAT)
    assert not np.shares_memory(first, second)
    del first
    third = buffers.take(LARGE, FLOAT)
    assert third.ctypes.data == place
    assert not np.shares_memory(second, third)


def test_a_part_of_an_array_is_held_with_it() -> None:
    """As TensorFlow does: it holds the array, however many tensors have its memory."""
    buffers = OutputBuffers()
    held = [buffers.take(LARGE, FLOAT)]
    held.append(buffers.take(LARGE, FLOAT))
    assert not any(np.shares_memory(array, buffers.take(LARGE, FLOAT)) for array in held)


def test_sizes_and_dtypes() -> None:
    buffers = OutputBuffers()
    for size, dtype in [(0, FLOAT), (3, FLOAT), (LARGE, FLOAT), (LARGE, np.dtype(np.int64))]:
        array = buffers.take(size, dtype)
        assert array.shape == (size,)
        assert array.dtype == dtype
