"""Output of the launchers: the chief's as it is, the others' in lines that begin with their node's name.

What the others write to stderr waits until the end, when it is told but for lines that the chief has written, too: all
launchers of a job report the same failure.
"""

from __future__ import annotations

import contextlib
import sys
from collections import deque
from collections.abc import Collection, Iterable
from typing import Any

_STDOUT, _STDERR = 1, 2
_MOST_LINES = 1000


class OwnStreams:
    """This process's stdout and stderr, as they are when it is made."""

    def __init__(self) -> None:
        self._streams: dict[int, Any] = {_STDOUT: sys.stdout, _STDERR: sys.stderr}

    def write(self, number: int, data: bytes) -> None:
        """Writes to stdout (1) or stderr (2)."""
        stream = self._streams[number]
        # A stream that is gone must not end a training.
        with contextlib.suppress(OSError, ValueError):
            buffer = getattr(stream, "buffer", None)
            if buffer is None:
                stream.write(data.decode(errors="replace"))
            else:
                buffer.write(data)
            stream.flush()


class NodeOutput:
    """Writes what one launcher wrote to this process's streams.

    Args:
        streams: Those.
        name: What its lines begin with; None for the chief's, which are written as they come, bars and all.
    """

    def __init__(self, streams: OwnStreams, name: str | None) -> None:
        self._streams = streams
        self._head = None if name is None else f"[{name}] ".encode(errors="replace")
        self._begun = {_STDOUT: b"", _STDERR: b""}
        self.errors: deque[bytes] = deque(maxlen=_MOST_LINES)
        """The last lines of its stderr."""

    def write(self, number: int, data: bytes) -> None:
        """Takes what it wrote to stdout (1) or stderr (2)."""
        if self._head is None:
            self._streams.write(number, data)
        *lines, self._begun[number] = (self._begun[number] + data).split(b"\n")
        self._take(number, lines)

    def end(self) -> None:
        """It has ended: what it has begun is a line."""
        for number, line in self._begun.items():
            self._take(number, [line] if line else [])
        self._begun = {_STDOUT: b"", _STDERR: b""}

    def tell_errors(self, told: Collection[bytes]) -> None:
        """Writes what it wrote to stderr, but for lines that were told."""
        self._tell(_STDERR, [line for line in self.errors if line not in told])

    def _take(self, number: int, lines: Iterable[bytes]) -> None:
        if number == _STDERR:
            self.errors.extend(lines)
        else:
            self._tell(number, lines)

    def _tell(self, number: int, lines: Iterable[bytes]) -> None:
        if self._head is not None:
            self._streams.write(number, b"".join(self._head + line + b"\n" for line in lines))
