"""Tests of how arrays lie in frames."""

from __future__ import annotations

import pytest

from tfdist.runtime.transport.shared_memory.frame_layout import Piece, frames_of, pieces_within, share


@pytest.mark.parametrize("sizes", [[3], [4], [5], [1, 1, 1, 1, 1], [9, 0, 2], [0], [], [4, 4], [2, 7, 1]])
def test_each_element_lies_in_one_place(sizes: list[int]) -> None:
    frames = frames_of(tuple(sizes), room=4)
    seen = [(piece.array, i) for pieces in frames for piece in pieces for i in range(piece.start, piece.stop)]
    assert seen == [(index, i) for index, size in enumerate(sizes) for i in range(size)]
    for pieces in frames:
        places = [place for piece in pieces for place in range(piece.place, piece.place_stop)]
        assert places == list(range(len(places)))
        assert len(places) <= 4
    assert all(sum(piece.stop - piece.start for piece in pieces) == 4 for pieces in frames[:-1])


def test_small_arrays_share_a_frame() -> None:
    assert frames_of((2, 3), room=4) == ((Piece(0, 0, 2, 0, 2), Piece(1, 0, 2, 2, 4)), (Piece(1, 2, 3, 0, 1),))


@pytest.mark.parametrize("size", [0, 1, 2, 7, 64])
def test_shares_are_the_whole_frame(size: int) -> None:
    shares = [share(size, rank, 3) for rank in range(3)]
    assert [i for part in shares for i in range(part.start, part.stop)] == list(range(size))


def test_a_piece_is_cut_to_a_share() -> None:
    pieces = [Piece(0, 10, 14, 0, 4), Piece(1, 0, 3, 4, 7)]
    assert list(pieces_within(pieces, slice(2, 5))) == [Piece(0, 12, 14, 2, 4), Piece(1, 0, 1, 4, 5)]
    assert list(pieces_within(pieces, slice(5, 5))) == []
