"""A worker's log that is written by a thread of its own.

A disk that does not answer, as a network file system may, then holds up neither the terminal nor the worker, which
waits as soon as nobody reads what it prints.
"""

from __future__ import annotations

import collections
import threading
import time
from collections.abc import Callable

from tfdist.launch.logs.worker_log import WorkerLog

_MOST_BYTES = 8 << 20
"""Bytes that may wait in memory for the disk."""

_SILENT_SECONDS = 10.0
"""Seconds for which a disk may take nothing until what comes is left out."""

_TICK_SECONDS = 1.0


class BackgroundLog:
    """Writes into a log, in the order of the calls.

    Args:
        log: The log; it is closed at the end.
        stdout: The stream in whose lines it is said that some are missing.
        report: Told why the log ends, once, where it cannot be written any more.
        clock: Seconds, never going back.
    """

    def __init__(
        self,
        log: WorkerLog,
        stdout: int,
        report: Callable[[OSError], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._log = log
        self._stdout = stdout
        self._report = report
        self._clock = clock
        self._changed = threading.Condition()
        self._waiting: collections.deque[tuple[int, bytes]] = collections.deque()
        self._bytes = self._missing = 0
        self._moved = clock()
        self._ending = False
        self._thread = threading.Thread(target=self._run, name="tfdist-log", daemon=True)
        self._thread.start()

    def write(self, stream: int, data: bytes) -> None:
        """Adds what was written to `stream`; waits for a disk that is only slower than what comes."""
        if not data:
            return
        with self._changed:
            while self._bytes > _MOST_BYTES and self._clock() - self._moved < _SILENT_SECONDS:
                self._changed.wait(_TICK_SECONDS)
            if self._bytes > _MOST_BYTES:
                self._missing += len(data)
                return
            if not self._waiting:
                self._moved = self._clock()
            self._add(stream, data)

    def close(self, timeout: float) -> None:
        """Waits until all is written, for `timeout` seconds at most; nothing is written later."""
        with self._changed:
            self._ending = True
            self._changed.notify_all()
        self._thread.join(timeout)

    def _add(self, stream: int, data: bytes) -> None:
        self._waiting.append((stream, data))
        self._bytes += len(data)
        self._changed.notify_all()

    def _run(self) -> None:
        while (entry := self._next()) is not None:
            error = self._log.write(*entry)
            if error is not None:
                self._report(error)
            with self._changed:
                self._waiting.popleft()
                self._bytes -= len(entry[1])
                self._moved = self._clock()
                if self._missing:
                    text = (
                        f"\ntfdist: {self._missing:,} bytes are missing here, as the disk of this log did not answer\n"
                    )
                    self._missing = 0
                    self._add(self._stdout, text.encode())
                self._changed.notify_all()
        self._log.close()

    def _next(self) -> tuple[int, bytes] | None:
        """The oldest of what waits, as soon as there is something; None at the end."""
        with self._changed:
            while not self._waiting and not self._ending:
                self._changed.wait()
            return self._waiting[0] if self._waiting else None
