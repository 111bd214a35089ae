from __future__ import annotations

import random

import pytest

from tfdist.launch.logs.line_splitter import (
    CharacterSplitter,
    LineSplitter,
    ScreenSplitter,
    StreamSplitter,
    whole_characters,
)


def fed(splitter: StreamSplitter, pieces: list[bytes]) -> list[bytes]:
    return [splitter.feed(piece, 0) for piece in pieces]


@pytest.mark.parametrize(
    ("pieces", "whole", "rest"),
    [
        ([b"a\nb"], [b"a\n"], b"b"),
        ([b"a", b"b\n", b"c\nd\n"], [b"", b"ab\n", b"c\nd\n"], b""),
        ([b"12345678"], [b""], b"12345678"),
        ([b"123456789"], [b"123456789"], b""),  # too long to be held back
        ([b"a\r", b"b\r\n"], [b"a", b"\rb\r\n"], b""),
        ([b"\ra\rb\rc"], [b"\ra\rb"], b"\rc"),  # a bar that takes hours is in the log meanwhile
        ([b"a\r", b"\n"], [b"a", b"\r\n"], b""),  # one end of a line, in two reads
        (["1234567é".encode() + b"\xc3", b"\xa9"], ["1234567é".encode(), b""], "é".encode()),
    ],
)
def test_lines_are_split(pieces: list[bytes], whole: list[bytes], rest: bytes) -> None:
    splitter = LineSplitter(max_partial=8)
    assert fed(splitter, pieces) == whole
    assert splitter.rest() == rest


def test_an_unfinished_line_is_not_held_back_for_ever() -> None:
    splitter = LineSplitter(patience=1)
    assert splitter.feed(b"done\nload\xc3", 5) == b"done\n"
    assert splitter.overdue(6) == b""
    assert splitter.overdue(6.1) == b"load"
    assert splitter.feed(b"\xa9\n", 7) == "é\n".encode()
    assert splitter.overdue(99) == b""


@pytest.mark.parametrize("splitter", [LineSplitter(patience=1), ScreenSplitter(patience=1)])
def test_a_line_waits_from_its_own_beginning(splitter: StreamSplitter) -> None:
    """Not from that of the line before, whose end came with it."""
    assert splitter.feed(b"one", 5) == b""
    assert splitter.feed(b" line\ntw", 5.9) == b"one line\n"
    assert splitter.overdue(6.8) == b""
    assert splitter.feed(b"o lines\n", 6.8) == b"two lines\n"


@pytest.mark.parametrize(
    ("data", "length"),
    [
        (b"", 0),
        (b"abc", 3),
        ("é".encode(), 2),
        ("é".encode()[:1], 0),
        ("a€".encode()[:3], 1),
        ("a€".encode(), 4),
        ("🙂".encode()[:3], 0),
        ("🙂".encode(), 4),
        ("\uffff".encode(), 3),  # the first byte of three bits less than that of four
        ("\uffff".encode()[:2], 0),
        ("\u07ff".encode(), 2),
        (b"\xe2\x7f", 2),  # a character that is damaged, and whole ones after it
        (b"a\xff", 1),  # may start a character; it is passed on with what follows
        (b"\x80\x80\x80\x80", 4),  # not UTF-8
    ],
)
def test_characters_are_not_split(data: bytes, length: int) -> None:
    assert whole_characters(data) == length


@pytest.mark.parametrize("seed", range(5))
def test_for_any_pieces_every_byte_passes_and_no_character_is_split(seed: int) -> None:
    text = "grün 12 €\r🙂 50%|###\r🙂🙂 100%\nübrig é"
    rng = random.Random(seed)
    data = text.encode()
    cuts = sorted(rng.choices(range(len(data)), k=8))
    pieces = [data[a:b] for a, b in zip([0, *cuts], [*cuts, len(data)], strict=True)]
    for splitter in (CharacterSplitter(), LineSplitter(max_partial=6)):
        passed = [*fed(splitter, pieces), splitter.rest()]
        assert b"".join(passed) == data
        assert "".join(piece.decode() for piece in passed) == text


@pytest.mark.parametrize(
    ("pieces", "shown", "rest"),
    [
        ([b"a\nb"], [b"a\n"], b"b\n"),
        ([b"a\r\nb\n"], [b"a\nb\n"], b""),
        ([b"\n\n"], [b"\n\n"], b""),
        ([b"\r10%|# ", b"\r20%|##", b"\r100%|#####\n"], [b"", b"", b"100%|#####\n"], b""),
        ([b"10%|# \r", b"20%|##\r", b"\n"], [b"", b"", b"20%|##\n"], b""),  # the return after the text
        ([b"\r10%|# ", b"\r20%|##"], [b"", b""], b"20%|##\n"),
        ([b"\r10%|# ", b"\r       \rsaid\n\r20%"], [b"", b"said\n"], b"20%\n"),  # tqdm.write
        ([b"\x1b[1mbold\x1b[0m\x1b[A\x1b[2K\n"], [b"\x1b[1mbold\x1b[0m\n"], b""),  # colours stay, moves do not
    ],
)
def test_the_lines_that_a_screen_shows(pieces: list[bytes], shown: list[bytes], rest: bytes) -> None:
    splitter = ScreenSplitter()
    assert fed(splitter, pieces) == shown
    assert splitter.rest() == rest


def test_a_line_that_is_too_long_is_broken_between_characters() -> None:
    splitter = ScreenSplitter(max_partial=5)
    shown = splitter.feed("1234é1234é".encode(), 0) + splitter.feed(b"\n", 0)
    assert shown.decode().replace("\n", "") == "1234é1234é"
    assert all(len(line.encode()) <= 5 for line in shown.decode().split("\n"))
    assert shown.endswith(b"\n") and not shown.endswith(b"\n\n")


def test_a_bar_that_does_not_end_is_shown_now_and_then() -> None:
    splitter = ScreenSplitter(patience=10)
    assert splitter.feed(b"\r10%", 0) + splitter.feed(b"\r20%", 9) == b""
    assert splitter.overdue(10) == b""
    assert splitter.overdue(10.1) == b"20%\n"
    assert splitter.overdue(30) == b""  # nothing new
    assert splitter.feed(b"\r30%", 31) == b""
    assert splitter.overdue(40) == b""
    assert splitter.overdue(41.1) == b"30%\n"
    assert splitter.feed(b"\n", 42) == b""  # its line has been ended already
    assert splitter.feed(b"\n", 42) == b"\n"


def test_bars_without_end_take_no_memory() -> None:
    splitter = ScreenSplitter(max_partial=100)
    for percent in range(1000):
        assert splitter.feed(b"\r%3d%%" % percent, 0) == b""
    assert len(splitter.rest()) < 10
