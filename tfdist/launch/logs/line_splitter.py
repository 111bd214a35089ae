"""Splitters of a stream of bytes: at the ends of lines and of characters, never inside them.

What is read from a pipe may end in the middle of a line or of a character. The three splitters say which part can be
passed on now; all of them are given the time, so that nothing is held back for ever.
"""

from __future__ import annotations

import math
import re
from typing import Protocol

MAX_PARTIAL_BYTES = 65536

# On a terminal that several share, moving the cursor would write over another's line.
_MOVES = re.compile(rb"\x1b\[[0-9;]*[A-HJKSTfsu]")


class StreamSplitter(Protocol):
    """Takes a stream in pieces, and returns it in pieces that do not end inside a line or a character."""

    def feed(self, data: bytes, now: float) -> bytes:
        """Adds `data`, read at `now` (seconds, never going back); returns what can be passed on."""
        ...

    def overdue(self, now: float) -> bytes:
        """Returns what has been held back for too long."""
        ...

    def rest(self) -> bytes:
        """Returns what is still held back when the stream has ended."""
        ...


def whole_characters(data: bytes) -> int:
    """The length of `data` without an incomplete UTF-8 character at its end."""
    for back in range(1, min(3, len(data)) + 1):
        byte = data[-back]
        if byte >= 0xC0:
            size = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return len(data) - back if size > back else len(data)
        if byte < 0x80:
            break
    return len(data)


class CharacterSplitter:
    """Passes on everything at once except an incomplete character: for a terminal with one writer."""

    def __init__(self) -> None:
        self._partial = b""

    def feed(self, data: bytes, now: float) -> bytes:
        data = self._partial + data
        end = whole_characters(data)
        self._partial = data[end:]
        return data[:end]

    def overdue(self, now: float) -> bytes:
        return b""

    def rest(self) -> bytes:
        partial, self._partial = self._partial, b""
        return partial


class LineSplitter:
    """Splits after the ends of lines and before carriage returns, and changes nothing: for a log.

    Args:
        max_partial: Bytes of an unfinished line that are held back; a longer one is passed on in parts.
        patience: Seconds that an unfinished line is held back.
    """

    def __init__(self, max_partial: int = MAX_PARTIAL_BYTES, patience: float = math.inf) -> None:
        self._partial = b""
        self._max_partial = max_partial
        self._patience = patience
        self._since = 0.0

    def feed(self, data: bytes, now: float) -> bytes:
        if not self._partial:
            self._since = now
        data = self._partial + data
        # A progress bar's carriage return comes before its text or after it, or is the first half of a line's end: what
        # precedes it is complete in any case.
        end = max(data.rfind(b"\n") + 1, data.rfind(b"\r"), 0)
        if len(data) - end > self._max_partial:
            end = whole_characters(data)
        self._partial = data[end:]
        if end:
            self._since = now
        return data[:end]

    def overdue(self, now: float) -> bytes:
        if now - self._since <= self._patience:
            return b""
        end = whole_characters(self._partial)
        overdue, self._partial = self._partial[:end], self._partial[end:]
        return overdue

    def rest(self) -> bytes:
        partial, self._partial = self._partial, b""
        return partial


class ScreenSplitter:
    """Splits into lines as a screen shows them in the end: for a terminal that several share.

    Of a line that is overwritten, as progress bars do with carriage returns, only the last text is passed on, and every
    `patience` seconds what the line shows then. All that is returned ends with a newline, whatever the stream does.

    Args:
        max_partial: Bytes after which a line is broken.
        patience: Seconds after which an unfinished line is passed on as it is.
    """

    def __init__(self, max_partial: int = MAX_PARTIAL_BYTES, patience: float = math.inf) -> None:
        self._partial = b""
        self._max_partial = max_partial
        self._patience = patience
        self._since = 0.0
        self._broken = False

    def feed(self, data: bytes, now: float) -> bytes:
        if not self._partial:
            self._since = now
        *lines, partial = (self._partial + data).split(b"\n")
        self._partial = _last_text(partial)
        if lines:
            self._since = now
        shown = b"".join(self._end(line) for line in lines)
        while len(self._partial) > self._max_partial:
            shown += self._break_off(self._max_partial)
        return shown

    def overdue(self, now: float) -> bytes:
        if now - self._since <= self._patience or not self._partial:
            return b""
        self._since = now
        return self._break_off(len(self._partial))

    def rest(self) -> bytes:
        partial, self._partial = self._partial, b""
        return self._end(partial) if partial else b""

    def _end(self, line: bytes) -> bytes:
        text = _visible(line)
        ends_broken_line, self._broken = self._broken, False
        return b"" if ends_broken_line and not text else text + b"\n"

    def _break_off(self, size: int) -> bytes:
        end = whole_characters(self._partial[:size]) or size
        text, self._partial = _visible(self._partial[:end]), self._partial[end:]
        if not text:
            return b""
        self._broken = True
        return text + b"\n"


def _last_text(line: bytes) -> bytes:
    """A line without its overwritten text; a carriage return at its end has overwritten nothing yet."""
    text = line.rstrip(b"\r")
    return text[text.rfind(b"\r") + 1 :] + line[len(text) : len(text) + 1]


def _visible(line: bytes) -> bytes:
    return _MOVES.sub(b"", _last_text(line)).rstrip(b"\r")
