"""Control input: lines that the launching host writes to a remote end, and when they have ended."""

from __future__ import annotations

import os
import select
import time
from collections import deque
from typing import Any

from tfdist.multihost.launching.protocol import MOST_SPEC_BYTES, SILENCE_SECONDS, parse_message

_READ_BYTES = 65536


class ControlInput:
    """A pipe with messages, one a line; an empty line is a sign of life.

    Args:
        descriptor: The pipe's end.
        silence: Seconds without any byte after which it counts as ended.
    """

    def __init__(self, descriptor: int, silence: float = SILENCE_SECONDS) -> None:
        self._descriptor = descriptor
        self._silence = silence
        self._heard = time.monotonic()
        self._lines: deque[bytes] = deque()
        self._rest = b""
        self.end: str | None = None
        """The reason why nothing comes any more; None while something may."""

    def fileno(self) -> int:
        """The descriptor, to wait on; -1 when it has ended."""
        return self._descriptor if self.end is None else -1

    def next_line(self) -> bytes | None:
        """The next line that has come; None while there is none."""
        self._read()
        return self._lines.popleft() if self._lines else None

    def messages(self) -> list[dict[str, Any]]:
        """The messages that have come; a line that is none ends it."""
        self._read()
        found = []
        while self._lines:
            try:
                found.append(parse_message(self._lines.popleft()))
            except ValueError as error:
                self.end = f"it sent something else than a message: {error}"
        return found

    def _read(self) -> None:
        if self.end is not None:
            return
        poller = select.poll()
        poller.register(self._descriptor, select.POLLIN)
        if not poller.poll(0):
            if time.monotonic() - self._heard > self._silence:
                self.end = f"nothing has come from it for {self._silence:g} s"
            return
        try:
            data = os.read(self._descriptor, _READ_BYTES)
        except OSError as error:
            self.end = f"its connection failed: {error.strerror}"
            return
        if not data:
            self.end = "its connection has ended"
            return
        self._heard = time.monotonic()
        *lines, self._rest = (self._rest + data).split(b"\n")
        self._lines += [line for line in lines if line.strip()]
        if len(self._rest) > MOST_SPEC_BYTES:
            self.end = "it sent a line without an end"
