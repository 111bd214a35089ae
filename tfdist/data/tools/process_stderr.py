"""Stderr of a process of the pool: passed on without TensorFlow's own lines, and kept for the error if it dies."""

from __future__ import annotations

import os
import sys
from collections import deque
from multiprocessing.connection import Connection

from tfdist.text import printable
from tfdist.tf_log_filter import TfLogFilter

_BLOCK_BYTES = 1 << 16
_KEPT_LINES = 100
_SHOWN_LINES = 12
_LINE_CHARACTERS = 300
_CRASH = "Fatal Python error"
"""How `faulthandler` begins; the frame that crashed is among its first lines."""


class ProcessStderr:
    """The end that the caller reads; `multiprocessing.connection.wait` takes it.

    Args:
        reader: Where the bytes arrive.
    """

    def __init__(self, reader: Connection) -> None:
        self._reader = reader
        self._filter = TfLogFilter()
        self._lines: deque[str] = deque(maxlen=_KEPT_LINES)
        self._unfinished = ""
        self._has_crashed = False
        self.is_open = True
        """Whether the process may write more."""
        os.set_blocking(reader.fileno(), False)

    def fileno(self) -> int:
        """The file descriptor to wait for."""
        return self._reader.fileno()

    def pass_on(self) -> None:
        """Writes what has arrived to this process's stderr; does not wait for more."""
        while self.is_open:
            try:
                data = os.read(self._reader.fileno(), _BLOCK_BYTES)
            except BlockingIOError:
                return
            self.is_open = bool(data)
            self._show(self._filter.feed(data) if data else self._filter.rest())

    def last_words(self) -> str:
        """The last lines, a crash from its beginning on; empty when nothing was written."""
        lines = [line for line in [*self._lines, self._unfinished] if line.strip()]
        crashes = [place for place, line in enumerate(lines) if line.startswith(_CRASH)]
        shown = lines[crashes[-1] :][:_SHOWN_LINES] if crashes else lines[-_SHOWN_LINES:]
        return "\n".join(printable(line)[:_LINE_CHARACTERS] for line in shown)

    def close(self) -> None:
        """Passes on what is left, and closes the pipe."""
        self.pass_on()
        self.is_open = False
        self._reader.close()

    def _show(self, shown: bytes) -> None:
        text = shown.decode(errors="replace")
        *ended, self._unfinished = (self._unfinished + text).split("\n")
        self._lines.extend(ended)
        if not self._has_crashed:
            # Where it crashed is in the error, which is shown as well.
            before, crash, _ = text.partition(_CRASH)
            self._has_crashed = bool(crash)
            sys.stderr.write(before)
            sys.stderr.flush()
