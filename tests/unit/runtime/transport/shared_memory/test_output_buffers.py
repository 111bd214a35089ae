"""Tests of the memory for results: who holds what."""

from __future__ import annotations

import numpy as np

from tfdist.runtime.transport.shared_memory.output_buffers import SPARE_BYTES, OutputBuffers

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


def test_a_part_of_an_array_holds_its_memory() -> None:
    """numpy has a part hold the memory itself, not the array that it was taken of."""
    buffers = OutputBuffers()
    parts = [buffers.take(LARGE, FLOAT)[:10], buffers.take(LARGE, FLOAT).reshape(2, -1)]
    others = [buffers.take(LARGE, FLOAT) for _ in range(3)]
    assert not any(np.shares_memory(part, other) for part in parts for other in others)


def test_memory_of_sizes_that_do_not_come_again_is_given_up() -> None:
    buffers = OutputBuffers()
    for size in range(LARGE, LARGE + 1000):
        buffers.take(size, FLOAT)
    kept = sum(buffer.size for buffer in buffers._buffers)
    assert SPARE_BYTES / 2 < kept < SPARE_BYTES + 10 * LARGE


def test_what_a_step_holds_at_once_is_kept() -> None:
    buffers = OutputBuffers()
    size = SPARE_BYTES // 4  # of 4 bytes each
    places = []
    for _ in range(4):
        held = [buffers.take(size, FLOAT) for _ in range(3)]
        places.append({array.ctypes.data for array in held})
        buffers.take(LARGE + len(places), FLOAT)
        del held
    assert places[1] == places[2] == places[3]


def test_no_more_is_kept_than_was_asked_for() -> None:
    sizes, most = [LARGE + 100 * number for number in range(8)], 0
    buffers = OutputBuffers(2 * LARGE * FLOAT.itemsize, spare_times=0)
    for size in sizes:
        buffers.take(size, FLOAT)
        most = max(most, sum(each.size for each in buffers._buffers))
    assert most < 4 * LARGE * FLOAT.itemsize < sum(sizes) * FLOAT.itemsize


def test_sizes_and_dtypes() -> None:
    buffers = OutputBuffers()
    for size, dtype in [(0, FLOAT), (3, FLOAT), (LARGE, FLOAT), (LARGE, np.dtype(np.int64))]:
        array = buffers.take(size, dtype)
        assert array.shape == (size,)
        assert array.dtype == dtype
