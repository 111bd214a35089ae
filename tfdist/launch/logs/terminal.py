"""Terminal of the launcher: its stdout and stderr, shared by its workers' output and its own messages.

Lines at the bottom of a screen that are drawn anew in place; all else is shown above them. Pure.
"""

from __future__ import annotations

import contextlib
import os
import stat
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol

from tfdist.launch.logs.line_splitter import CharacterSplitter, ScreenSplitter, StreamSplitter
from tfdist.launch.logs.log_records import Level, LogRecords
from tfdist.net.bounded_wait import is_writable, wait_for
from tfdist.text import without_controls

STDOUT, STDERR = 1, 2

Show = Literal["chief", "all", "none"]
"""The choice of the workers whose output the terminal shows."""

UNFINISHED_SECONDS = 10.0
"""Seconds that a terminal of several workers waits for the end of a line or of a progress bar."""

_IDLE_SECONDS = 0.2
_SAY_SECONDS = 1.0
_DRAW_SECONDS = 0.1
_COLUMNS = 80
_PIECE_BYTES = 4096  # PIPE_BUF: a pipe that is ready takes this much without blocking
_BACK = b"\r"
_CLEAR_LINE = b"\x1b[2K"
_UP = b"\x1b[1A"


class OutputStream(Protocol):
    """An unbuffered stream of bytes."""

    def fileno(self) -> int: ...
    def write(self, data: Any, /) -> int | None: ...


class Terminal:
    """The terminal to which the launcher and its workers' pumps write.

    Args:
        streams: Where STDOUT and STDERR go, unbuffered: a thread that a full pipe blocks must not hold a lock that the
            interpreter needs when it exits. None shows nothing.
        prefix: Whether each line begins with its worker's index.
        whole_lines: Whether to wait for the end of a line, as several workers on one terminal must.
        records: What makes a record of each line and message; None for text. A record has its worker's index in it.
    """

    def __init__(
        self,
        streams: Mapping[int, OutputStream] | None,
        *,
        prefix: bool = False,
        whole_lines: bool = False,
        records: LogRecords | None = None,
    ) -> None:
        self._streams = dict(streams or {})
        self._prefix = prefix
        self._whole_lines = whole_lines or prefix or records is not None
        self._records = records
        self._inside_line: dict[int, bool] = {}
        self._live = LiveLines()
        self._lock = threading.Lock()

    def splitter(self) -> StreamSplitter:
        """A new splitter of one worker's stream, for pieces that can be written here."""
        return ScreenSplitter(patience=UNFINISHED_SECONDS) if self._whole_lines else CharacterSplitter()

    def begin(self, attempt: int) -> None:
        """The workers of attempt number `attempt` are about to start."""
        if self._records is not None:
            self._records.begin(attempt)

    def write(self, index: int, stream: int, data: bytes) -> None:
        """Shows what worker `index` wrote, unless the terminal is gone."""
        if self._records is not None:
            data = self._records.of_worker(index, "stdout" if stream == STDOUT else "stderr", data)
        elif self._prefix and data:
            label = f"[worker {index}] ".encode()
            data = b"".join(label + line for line in data.splitlines(keepends=True))
        with self._lock:
            target = self._streams.get(stream)
            if target is None or not data:
                return
            self._inside_line[stream] = not data.endswith(b"\n")
            if self._live and (stream == STDERR or _is_screen(target)):
                # With a bar only whole lines come.
                data = self._live.above(data)
            try:
                _write_all(target, data)
            except (OSError, ValueError):
                del self._streams[stream]

    def say(self, text: str, level: Level | None = None, **fields: Any) -> bool:
        """Shows the launcher's own message on stderr, on lines of its own; an empty one is nothing to show.

        The launcher never waits for more than a second: a terminal that accepts nothing for so long misses the message.

        Args:
            level: How serious it is, for its record; None for what the message says itself.

        Returns:
            Whether the whole message was written.
        """
        if not text:
            return True
        deadline = time.monotonic() + _SAY_SECONDS
        if not self._lock.acquire(timeout=_SAY_SECONDS):
            return False
        try:
            target = self._streams.get(STDERR)
            if target is None:
                return False
            if self._records is not None:
                return _write_until(deadline, target, self._records.of_launcher(text, level, **fields))
            start = b"\n" if self._is_inside_line() else b""
            said = start + without_controls(text).encode(errors="replace") + b"\n"
            return _write_until(deadline, target, self._live.above(said) if self._live else said)
        except (OSError, ValueError):
            del self._streams[STDERR]
            return False
        finally:
            self._lock.release()

    def columns(self) -> int:
        """The width of the screen; 80 where it does not tell."""
        with contextlib.suppress(OSError, ValueError, KeyError):
            return os.get_terminal_size(self._streams[STDERR].fileno()).columns or _COLUMNS
        return _COLUMNS

    def draw(self, lines: Sequence[bytes]) -> None:
        """Shows lines at the bottom of the screen on stderr, instead of those before; none remove them.

        It waits for nobody: a terminal that is busy shows the next ones. Those that are removed are waited for as in
        `say`, as nothing comes after them.
        """
        deadline = time.monotonic() + (0.0 if lines else _SAY_SECONDS)
        if not self._lock.acquire(timeout=max(0.0, deadline - time.monotonic())):
            return
        try:
            target = self._streams.get(STDERR)
            is_busy = target is not None and lines and not is_writable(target)
            if target is None or is_busy or not (lines or self._live):
                return
            start = b"\n" if not self._live and self._is_inside_line() else b""
            _write_until(deadline + _DRAW_SECONDS, target, start + self._live.replace(lines))
        except (OSError, ValueError):
            del self._streams[STDERR]
        finally:
            self._lock.release()

    def _is_inside_line(self) -> bool:
        """Returns whether the cursor is inside a line of the screen on stderr; afterwards it is not."""
        inside = self._inside_line.pop(STDERR, False)
        if all(stream in self._streams and _is_screen(self._streams[stream]) for stream in (STDOUT, STDERR)):
            inside = self._inside_line.pop(STDOUT, False) or inside
        return inside


def keeps_bars(stdout: OutputStream | None, stderr: OutputStream | None) -> bool:
    """Returns whether a bar on stderr stays whole: that is a screen, and nobody else writes what stdout gets on it.

    A program that reads stdout, such as `tee`, may show it there, in the middle of the bar.
    """
    if stderr is None or not _is_screen(stderr):
        return False
    with contextlib.suppress(OSError, ValueError):
        return stdout is None or not stat.S_ISFIFO(os.fstat(stdout.fileno()).st_mode)
    return True


def _is_screen(target: OutputStream) -> bool:
    with contextlib.suppress(OSError, ValueError):
        return os.isatty(target.fileno())
    return False


def _write_all(target: OutputStream, data: bytes) -> None:
    """Writes to an unbuffered stream, which may accept a part, or nothing while its other end is slow."""
    rest = memoryview(data)
    while rest:
        written = target.write(rest)
        if written is None:
            wait_for((), _IDLE_SECONDS, (target,))
        else:
            rest = rest[written:]


def _write_until(deadline: float, target: OutputStream, data: bytes) -> bool:
    """Writes what the stream accepts until `deadline`, without blocking; returns whether that was all."""
    rest = memoryview(data)
    while rest:
        wait_for((), deadline - time.monotonic(), (target,))
        if not is_writable(target):
            return False
        rest = rest[target.write(rest[:_PIECE_BYTES]) or 0 :]
    return True


class LiveLines:
    """The lines that are shown now. The cursor stays at the end of the last one.

    The methods return what is to be written to the screen.
    """

    def __init__(self) -> None:
        self._shown: tuple[bytes, ...] = ()

    def __bool__(self) -> bool:
        return bool(self._shown)

    def replace(self, lines: Sequence[bytes]) -> bytes:
        """Other lines instead: none remove them."""
        erased, self._shown = self._erased(), tuple(lines)
        return erased + self._drawn()

    def above(self, data: bytes) -> bytes:
        """`data`, which ends with a newline, above the lines."""
        return self._erased() + data + self._drawn()

    def _erased(self) -> bytes:
        if not self._shown:
            return b""
        return _BACK + _CLEAR_LINE + (_UP + _CLEAR_LINE) * (len(self._shown) - 1)

    def _drawn(self) -> bytes:
        return b"\n".join(self._shown)
