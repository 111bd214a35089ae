"""Messages from the worker that draws to those that read, over a socket that keeps them apart."""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
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


MOST_BYTES = 64 << 10
"""Of a message."""

MOST_ARRAYS = 500
"""Of a batch, whose shapes a message has room for."""

_MOST_TEXT = 6 << 10
"""Characters of an error's text, of which each may take several bytes. TensorFlow's may hold a traceback: its last
lines, which name the error, are kept."""


@dataclass(frozen=True)
class BatchNote:
    """A batch that can be read.

    Attributes:
        slot: The number of its slot. Where that has new memory, the message has its descriptor.
        largest: Samples of the largest batch so far, this one included.
        shapes: Those of its arrays.
    """

    slot: int
    largest: int
    shapes: tuple[Shape, ...]


@dataclass(frozen=True)
class EndNote:
    """There is no other batch."""


@dataclass(frozen=True)
class FailureNote:
    """The data has failed where the next batch was due.

    Attributes:
        code: TensorFlow's code of the error; None for one that is not TensorFlow's.
        text: The error's text.
    """

    code: int | None
    text: str


_KEPT = 32
"""Messages of which both forms are kept: batches of one size are told of in the same words again and again."""

Note = BatchNote | EndNote | FailureNote


@functools.lru_cache(_KEPT)
def encode(note: Note) -> bytes:
    """The message that says it."""
    if isinstance(note, BatchNote):
        return json.dumps([note.slot, note.largest, note.shapes]).encode()
    if isinstance(note, FailureNote):
        return json.dumps({"code": note.code, "text": shortened(note.text)}).encode()
    return b"{}"


@functools.lru_cache(_KEPT)
def decode(message: bytes) -> Note:
    """Returns what a message says."""
    said = json.loads(message)
    if isinstance(said, list):
        slot, largest, shapes = said
        return BatchNote(slot, largest, tuple(map(tuple, shapes)))
    return FailureNote(said["code"], said["text"]) if said else EndNote()


def shortened(text: str) -> str:
    """`text`, without its middle where it is too long for a message."""
    if len(text) <= _MOST_TEXT:
        return text
    return f"{text[: _MOST_TEXT // 2]}\n...\n{text[-_MOST_TEXT // 2 :]}"
