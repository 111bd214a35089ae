"""The launcher's own stdout and stderr, on which its workers' output and its own messages meet."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Mapping
from typing import Any, Protocol

from tfdist.launch.logs.line_splitter import CharacterSplitter, ScreenSplitter, StreamSplitter
from tfdist.net.bounded_wait import is_writable, wait_for

STDOUT, STDERR = 1, 2

UNFINISHED_SECONDS = 10.0
"""How long several workers' terminal waits for the end of a line, or for a progress bar's."""

_IDLE_SECONDS = 0.2
_SAY_SECONDS = 1.0
_PIECE_BYTES = 4096  # PIPE_BUF: a pipe that is ready takes as much without blocking


class OutputStream(Protocol):
    """Where bytes go, unbuffered."""

    def fileno(self) -> int: ...
    def write(self, data: Any, /) -> int | None: ...


class Terminal:
    """Where the launcher shows things, shared by its workers' pumps.

    Args:
        streams: Where STDOUT and STDERR go, unbuffered: a thread that a full pipe holds up must hold no lock that the
            interpreter wants at its end. None shows nothing.
        prefix: Whether each line begins with its worker's index.
        whole_lines: Whether to wait for a line's end, which several workers on one terminal need.
    """

    def __init__(
        self, streams: Mapping[int, OutputStream] | None, *, prefix: bool = False, whole_lines: bool = False
    ) -> None:
        self._streams = dict(streams or {})
        self._prefix = prefix
        self._whole_lines = whole_lines or prefix
        self._inside_line: dict[int, bool] = {}
        self._lock = threading.Lock()

    def cutter(self) -> StreamSplitter:
        """What cuts one worker's stream so that it can be written here."""
        return ScreenSplitter(patience=UNFINISHED_SECONDS) if self._whole_lines else CharacterSplitter()

    def write(self, index: int, stream: int, data: bytes) -> None:
        """Shows what worker `index` wrote. A terminal that is gone shows nothing; the log still has it."""
        if self._prefix and data:
            label = f"[worker {index}] ".encode()
            data = b"".join(label + line for line in data.splitlines(keepends=True))
        with self._lock:
            target = self._streams.get(stream)
            if target is None or not data:
                return
            self._inside_line[stream] = not data.endswith(b"\n")
            try:
                _write_all(target, data)
            except (OSError, ValueError):
                del self._streams[stream]

    def say(self, text: str) -> bool:
        """Shows the launcher's own message on stderr, on lines of its own.

        It never keeps the launcher: a terminal that takes nothing for a second goes without the message.

        Returns:
            Whether the whole message was written.
        """
        deadline = time.monotonic() + _SAY_SECONDS
        if not self._lock.acquire(timeout=_SAY_SECONDS):
            return False
        try:
            target = self._streams.get(STDERR)
            if target is None:
                return False
            start = b"\n" if self._is_inside_line() else b""
            return _write_until(deadline, target, start + text.encode(errors="replace") + b"\n")
        except (OSError, ValueError):
            del self._streams[STDERR]
            return False
        finally:
            self._lock.release()

    def _is_inside_line(self) -> bool:
        """Whether stderr's cursor, on the screen that stdout may share, stands behind something; says it is not."""
        inside = self._inside_line.pop(STDERR, False)
        if all(stream in self._streams and _is_screen(self._streams[stream]) for stream in (STDOUT, STDERR)):
            inside = self._inside_line.pop(STDOUT, False) or inside
        return inside


def _is_screen(target: OutputStream) -> bool:
    with contextlib.suppress(OSError, ValueError):
        return os.isatty(target.fileno())
    return False


def _write_all(target: OutputStream, data: bytes) -> None:
    """Writes to an unbuffered stream, which may take a part, or nothing while its other end is slow."""
    rest = memoryview(data)
    while rest:
        written = target.write(rest)
        if written is None:
            wait_for((), _IDLE_SECONDS, (target,))
        else:
            rest = rest[written:]


def _write_until(deadline: float, target: OutputStream, data: bytes) -> bool:
    """Writes what the stream takes up to `deadline`, without ever blocking; returns whether that was all."""
    rest = memoryview(data)
    while rest:
        wait_for((), deadline - time.monotonic(), (target,))
        if not is_writable(target):
            return False
        rest = rest[target.write(rest[:_PIECE_BYTES]) or 0 :]
    return True
