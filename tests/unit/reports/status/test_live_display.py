from __future__ import annotations

import fcntl
import io
import os
import pty
import struct
import termios
from collections.abc import Iterator
from typing import TextIO

import pytest

from tests.unit.screen import shown
from tfdist.reports.status.live_display import LiveDisplay


class Screen:
    """A pseudo-terminal with so many columns and lines."""

    def __init__(self) -> None:
        self.master, slave = pty.openpty()
        self.stream: TextIO = os.fdopen(slave, "w")
        self.resize(20, 6)

    def resize(self, columns: int, lines: int) -> None:
        fcntl.ioctl(self.stream.fileno(), termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def text(self, lines: int) -> str:
        """What comes, up to the end of so many lines."""
        return shown(self.master, lines)

    def close(self) -> None:
        self.stream.close()
        os.close(self.master)


@pytest.fixture
def screen() -> Iterator[Screen]:
    made = Screen()
    yield made
    made.close()


def test_pictures_are_redrawn_in_place(screen: Screen) -> None:
    board = LiveDisplay(screen.stream)
    assert board.size() == (19, 5)
    board.show("a\nb\nc")
    assert screen.text(3) == "a\nb\nc\n"
    board.show("d")
    assert screen.text(1) == "\x1b[3A\r\x1b[Jd\n"
    board.show("e\nf")
    assert screen.text(2) == "\x1b[1A\r\x1b[Je\nf\n"


def test_a_terminal_that_has_become_narrower(screen: Screen) -> None:
    board = LiveDisplay(screen.stream)
    board.show("123456789012\nb")
    screen.text(2)
    screen.resize(5, 6)
    board.show("c")
    assert screen.text(1) == "\x1b[4A\r\x1b[Jc\n"  # the first line takes three rows now


def test_pictures_follow_one_another_in_a_pipe() -> None:
    stream = io.StringIO()
    board = LiveDisplay(stream)
    assert board.size() == (None, None)
    board.show("a\nb")
    board.show("c\nd")
    assert stream.getvalue() == "a\nb\n\nc\nd\n"
