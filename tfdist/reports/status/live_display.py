"""Live display of a text: redrawn in place on a terminal, one below the other anywhere else."""

from __future__ import annotations

import os
from typing import TextIO

_UP_AND_CLEAR = "\x1b[{lines}A\r\x1b[J"


class LiveDisplay:
    """Shows pictures of several lines, each in place of the one before.

    On a terminal the picture is redrawn in place and nothing else is changed: however the program ends, the terminal is
    as it was, with the last picture on it.

    Args:
        stream: The terminal, file or pipe to write to.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._shown: list[str] = []
        self._is_first = True

    def size(self) -> tuple[int | None, int | None]:
        """The columns and lines that a picture may have; None for any number, when this is no terminal."""
        columns, lines = self._terminal_size()
        # The cursor stands in the line below the picture. The last column wraps on some terminals.
        return (columns and max(1, columns - 1)), (lines and max(1, lines - 1))

    def show(self, picture: str) -> None:
        """Replaces the picture before."""
        columns, _ = self._terminal_size()
        begin = ""
        if columns and self._shown:
            begin = _UP_AND_CLEAR.format(lines=sum(_rows(line, columns) for line in self._shown))
        elif not self._is_first and not columns and "\n" in picture:
            begin = "\n"
        self._is_first = False
        self._shown = picture.split("\n")
        self._stream.write(f"{begin}{picture}\n")
        self._stream.flush()

    def _terminal_size(self) -> tuple[int | None, int | None]:
        try:
            if not self._stream.isatty():
                return None, None
            size = os.get_terminal_size(self._stream.fileno())
        except (OSError, ValueError):
            return None, None
        return size.columns or None, size.lines or None


def _rows(line: str, columns: int) -> int:
    """Rows of the screen that a line takes; the screen may have become narrower since."""
    return max(1, -(-len(line) // columns))
