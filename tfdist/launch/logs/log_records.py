"""Records of `--log-format json`: one JSON object a line, for collectors of logs such as Loki and CloudWatch.

A line of a program gets the level that it says itself; what any code of the launcher prints becomes a record, too.
"""

from __future__ import annotations

import collections
import contextlib
import io
import json
import re
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any, BinaryIO, Literal, TextIO

Level = Literal["debug", "info", "warning", "error"]

_NAMES: dict[str, Level] = {
    "DEBUG": "debug",
    "INFO": "info",
    "WARN": "warning",
    "WARNING": "warning",
    "ERROR": "error",
    "CRITICAL": "error",
    "FATAL": "error",
}
_LETTERS: dict[str, Level] = {"I": "info", "W": "warning", "E": "error", "F": "error"}
_HEAD = 100
"""Characters of a line in which its level stands, where it says one."""

_OWN = re.compile(r"(?:tfdist: )?(error|warning)\b", re.IGNORECASE)
_GLOG = re.compile(r"([IWEF])\d{4} \d\d:\d\d:\d\d|\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+: ([IWEF]) ")
_NAMED = re.compile(rf"(?:^|[\s\[(|:-])({'|'.join(_NAMES)})(?=$|[\s\])|:-])")
_PYTHON_WARNING = re.compile(r".+:\d+: \w*Warning: ")
_TRACEBACK = "Traceback (most recent call last):"
_EXCEPTION = re.compile(r"(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Interrupt|Exit)(?:: |$)")
LogFormat = Literal["text", "json"]
"""The values that `--log-format` takes."""
_COLORS = re.compile(r"\x1b\[[0-9;:]*m|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[()][A-Z0-9]")


def level_of(line: str) -> Level:
    """Returns how serious a line is: that of Python's and TensorFlow's log lines, warnings and exceptions; else `info`.

    Which stream it was written to says nothing: progress bars and most logs go to stderr.
    """
    head = line[:_HEAD]
    if own := _OWN.match(head):
        return "error" if own[1].lower() == "error" else "warning"
    if glog := _GLOG.match(head):
        return _LETTERS[glog[1] or glog[2]]
    if head.startswith(_TRACEBACK) or _EXCEPTION.match(head):
        return "error"
    if named := _NAMED.search(head):
        return _NAMES[named[1]]
    return "warning" if _PYTHON_WARNING.match(line) else "info"


class LineLevels:
    """Levels of the lines of one stream: those of a traceback are errors from its first to its last."""

    def __init__(self) -> None:
        self._in_traceback = False

    def next(self, line: str) -> Level:
        """The level of the next line."""
        if self._in_traceback and (line.startswith((" ", "\t")) or not line):
            return "error"
        if self._in_traceback:
            self._in_traceback = False
            return "error"  # the exception itself
        self._in_traceback = line.startswith(_TRACEBACK)
        return level_of(line)


class LogRecords:
    """Makes records, each a line of UTF-8 that ends with a newline and has no other.

    Args:
        run: The run's name; None while it is not known.
        host: This machine's name; None asks the system.
        clock: Seconds since 1970 (UTC).
    """

    def __init__(
        self, run: str | None = None, host: str | None = None, clock: Callable[[], float] = time.time
    ) -> None:
        self._run = run
        self._host = socket.gethostname() if host is None else host
        self._clock = clock
        self._attempt = 0
        self._levels: dict[tuple[int, str], LineLevels] = collections.defaultdict(LineLevels)

    def begin(self, attempt: int) -> None:
        """Takes what workers write from now on as that of attempt number `attempt`."""
        self._attempt = attempt
        self._levels.clear()

    def of_launcher(self, message: str, level: Level | None = None, **fields: Any) -> bytes:
        """The record of the launcher's own message, which may have several lines.

        Args:
            message: What it says; nothing makes no record.
            level: How serious it is; None for what the message says itself.
            **fields: More of it, for programs; one that is None is left out.
        """
        if not message.strip():
            return b""
        return self._record(level or level_of(message), message, {"source": "launcher", **fields})

    def of_worker(self, index: int, stream: Literal["stdout", "stderr"], lines: bytes) -> bytes:
        """The records of whole lines that worker `index` wrote, one each; an empty line makes none."""
        records = []
        for line in lines.split(b"\n")[:-1]:
            text = _COLORS.sub("", line.decode(errors="replace"))
            level = self._levels[index, stream].next(text)
            if text.strip():
                about = {"source": "worker", "worker": index, "attempt": self._attempt, "stream": stream}
                records.append(self._record(level, text, about))
        return b"".join(records)

    def _record(self, level: Level, message: str, about: dict[str, Any]) -> bytes:
        now = datetime.fromtimestamp(self._clock(), UTC)
        record = {
            "time": now.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": level,
            "run": self._run,
            "host": self._host,
            **about,
            "message": message,
        }
        known = {name: value for name, value in record.items() if value is not None}
        return json.dumps(known, ensure_ascii=False, allow_nan=False).encode(errors="replace") + b"\n"


class RecordStream(io.TextIOBase):
    """A text stream that writes each message that is printed into it as one record."""

    encoding = "utf-8"
    errors = "replace"

    def __init__(self, stream: TextIO, records: LogRecords) -> None:
        self._stream = stream
        self._records = records
        self._lock = threading.RLock()
        self._unfinished = ""

    @property
    def buffer(self) -> BinaryIO:
        """The stream of bytes below, for who writes records itself."""
        return self._stream.buffer

    def fileno(self) -> int:
        return self._stream.fileno()

    def isatty(self) -> bool:
        return False

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        # What is printed at once is one message, of however many lines: its end comes with it, or right after it.
        with self._lock:
            self._unfinished += text
            if self._unfinished.endswith("\n"):
                self._write_out()
        return len(text)

    def flush(self) -> None:
        with contextlib.suppress(ValueError):  # closed
            self._stream.flush()

    def finish(self) -> None:
        """Writes what was printed without an end of line."""
        with self._lock:
            self._write_out()

    def _write_out(self) -> None:
        message, self._unfinished = self._unfinished.rstrip("\n"), ""
        record = self._records.of_launcher(message)
        if record:
            self._stream.buffer.write(record)
            self._stream.buffer.flush()


@contextlib.contextmanager
def recorded_streams(records: LogRecords) -> Iterator[None]:
    """Makes records of all that this process prints through `sys.stdout` and `sys.stderr`."""
    before: dict[str, Any] = {name: getattr(sys, name) for name in ("stdout", "stderr")}
    streams = {name: RecordStream(stream, records) for name, stream in before.items() if hasattr(stream, "buffer")}
    for stream in before.values():
        stream.flush()
    for name, made in streams.items():
        setattr(sys, name, made)
    try:
        yield
    finally:
        for name, made in streams.items():
            with contextlib.suppress(OSError, ValueError):  # its other end is gone
                made.finish()
            setattr(sys, name, before[name])
