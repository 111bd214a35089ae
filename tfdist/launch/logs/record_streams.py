"""stdout and stderr of a launcher that writes records: what any of its code prints becomes some, too."""

from __future__ import annotations

import contextlib
import io
import sys
import threading
from collections.abc import Iterator
from typing import Any, BinaryIO, TextIO

from tfdist.launch.logs.log_records import LogRecords


class RecordStream(io.TextIOBase):
    """A text stream that writes each message that is printed into it as one record.

    Args:
        stream: Where the records go.
        records: What makes them.
    """

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
