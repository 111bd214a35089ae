"""Errors of Python code in TensorFlow's operations, such as `tf.py_function`, as TensorFlow logs them.

It logs the traceback of each of them, once an operation that fails: in a pipeline that reads ahead in several threads a
damaged sample gives dozens. The error that ends the training has the text of the first.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_RAISED = re.compile(
    rb"\] (?:[^:]*: )?[A-Z_]{5,}: (?:Error in user-defined function .*? with iterator: \S+: )?"
    rb"(?:\{\{function_node \S+\}\} )?(?P<first>[A-Za-z_][\w.]*:.*)$"
)
_TRACEBACK = b"Traceback (most recent call last):"
_MODULE = re.compile(rb"^(?:[A-Za-z_]\w*\.)+(?=[A-Za-z_]\w*(?::|$))")
"""The module of an exception, which its traceback says, and the log's text does not."""

_PLACES = b"\t [["
_REPORTED = (b"tfdist.errors.WorkerFailedError: ", b"tfdist.errors.UsageError: ")
"""Errors of collectives, which end the worker: it says so itself, without the way through tfdist."""

_MOST_TEXT = 20
_MOST_LINES = 400
"""Lines that are held back at most, until it is clear that they are no such error."""


class Taken(NamedTuple):
    """The outcome for a line: whether it is part of an error, and what is to be shown now."""

    is_part: bool
    shown: bytes


class PythonOpErrors:
    """Shows the traceback of each place of the code once, and no log lines around it."""

    def __init__(self) -> None:
        self._seen: set[bytes] = set()
        self._first = b""
        self._held: list[bytes] = []
        self._text_lines: int | None = None
        self._blank_lines_left = 0

    def begin(self, log_line: bytes) -> bytes:
        """Notes a log line of TensorFlow, after which the lines of an error may follow; returns what was held back."""
        held = self.rest()
        raised = _RAISED.search(log_line.rstrip(b"\r\n"))
        self._first = _bare(raised["first"]) if raised else b""
        return held

    def take(self, line: bytes) -> Taken:
        """Takes a whole line that is no log line."""
        if not self._first:
            return Taken(self._is_after(line), b"")
        self._held.append(line)
        if self._text_lines is None:
            if line.startswith(_TRACEBACK):
                self._text_lines = len(self._held) - 1
            return Taken(True, b"" if len(self._held) <= _MOST_TEXT or self._text_lines is not None else self.rest())
        said = [self._first, *map(_bare, self._held[: self._text_lines])]
        if [_bare(each) for each in self._held[-len(said) :]] == said:
            return Taken(True, self._whole(len(said)))
        return Taken(True, b"" if len(self._held) <= _MOST_LINES else self.rest())

    def holds(self, start: bytes) -> bool:
        """Returns whether a line that starts so cannot be shown before it is whole."""
        return bool(self._first) or (self._blank_lines_left > 0 and _PLACES.startswith(start[: len(_PLACES)]))

    def rest(self) -> bytes:
        """Returns what was held back, and was no such error."""
        held = b"".join(self._held)
        self._close()
        return held

    def _whole(self, said: int) -> bytes:
        """The traceback, where no other was of the same place."""
        lines = self._held[self._text_lines :]
        frames = [line for line in lines[:-said] if line.strip()]
        self._close()
        self._blank_lines_left = 3
        place = b"".join(frames)
        if place in self._seen or lines[-said].startswith(_REPORTED):
            return b""
        self._seen.add(place)
        return b"".join([*frames, *lines[-said:]])

    def _close(self) -> None:
        self._first, self._held, self._text_lines, self._blank_lines_left = b"", [], None, 0

    def _is_after(self, line: bytes) -> bool:
        """Returns whether a line is of those that end an error: empty ones, and places in the graph."""
        if self._blank_lines_left and (not line.strip() or line.startswith(_PLACES)):
            self._blank_lines_left -= not line.strip()
            return True
        self._blank_lines_left = 0
        return False


def _bare(line: bytes) -> bytes:
    """A line without what differs between the log's text and the traceback's: an error without a text has a colon."""
    return _MODULE.sub(b"", line.rstrip(b": \r\n"))
