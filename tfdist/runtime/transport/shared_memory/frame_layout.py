"""The layout of arrays in frames: their elements lie one after another, so that small arrays share a frame."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import NamedTuple


class Piece(NamedTuple):
    """Elements `start` to `stop` of array number `array`, which are the elements `place` to `place_stop` of a frame."""

    array: int
    start: int
    stop: int
    place: int
    place_stop: int


@functools.lru_cache(maxsize=256)
def frames_of(sizes: tuple[int, ...], room: int) -> tuple[tuple[Piece, ...], ...]:
    """The pieces of each frame. A training asks for the same few again in every step.

    Args:
        sizes: Elements of each array.
        room: Elements of a frame.

    Returns:
        At least one frame, which has no pieces where there are no elements.
    """
    frames: list[list[Piece]] = [[]]
    used = 0
    for number, size in enumerate(sizes):
        start = 0
        while start < size:
            if used == room:
                frames.append([])
                used = 0
            stop = min(size, start + room - used)
            frames[-1].append(Piece(number, start, stop, used, used + stop - start))
            used += stop - start
            start = stop
    return tuple(map(tuple, frames))


def share(size: int, rank: int, count: int) -> slice:
    """The elements of a frame of `size` that the worker of this rank sums."""
    return slice(size * rank // count, size * (rank + 1) // count)


def pieces_within(pieces: Sequence[Piece], part: slice) -> Iterator[Piece]:
    """The parts of pieces that lie in a part of their frame."""
    for piece in pieces:
        start, stop = max(piece.place, part.start), min(piece.place_stop, part.stop)
        if start < stop:
            moved = piece.start - piece.place
            yield Piece(piece.array, start + moved, stop + moved, start, stop)


def pieces_of(pieces: Sequence[Piece], part: slice) -> Iterator[Piece]:
    """The parts of pieces that are of a part of their array."""
    for piece in pieces:
        start, stop = max(piece.start, part.start), min(piece.stop, part.stop)
        if start < stop:
            moved = piece.place - piece.start
            yield Piece(piece.array, start, stop, start + moved, stop + moved)
