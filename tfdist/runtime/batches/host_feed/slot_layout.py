"""The layout of the arrays of a batch in shared memory."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

ALIGNMENT = 64
"""Bytes: a line of the cache, and what vector instructions want."""

Shape = tuple[int, ...]


class SlotLayout(NamedTuple):
    """The places of the arrays of one batch.

    Attributes:
        offsets: The first byte of each.
        size: Bytes of all of them; at least 1.
    """

    offsets: tuple[int, ...]
    size: int


def layout_of(shapes: Sequence[Shape], dtypes: Sequence[np.dtype]) -> SlotLayout:
    """The layout of arrays of these shapes and dtypes, one after another."""
    offsets, end = [], 0
    for shape, dtype in zip(shapes, dtypes, strict=True):
        start = -(-end // ALIGNMENT) * ALIGNMENT
        offsets.append(start)
        end = start + math.prod(shape) * dtype.itemsize
    return SlotLayout(tuple(offsets), max(1, end))


def places_in(memory: NDArray[np.uint8], shapes: Sequence[Shape], dtypes: Sequence[np.dtype]) -> tuple[NDArray, ...]:
    """Arrays of these shapes and dtypes in some memory, each at its place."""
    offsets = layout_of(shapes, dtypes).offsets
    return tuple(
        memory[start : start + math.prod(shape) * dtype.itemsize].view(dtype).reshape(shape)
        for start, shape, dtype in zip(offsets, shapes, dtypes, strict=True)
    )
