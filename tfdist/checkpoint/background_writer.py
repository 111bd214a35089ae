"""Background writer: one job at a time, in a thread of its own, while the training continues."""

from __future__ import annotations

import atexit
import functools
import threading
from collections.abc import Callable

EXIT_SECONDS = 30.0
"""Seconds that a process that ends waits for the running job; `tfdist train` allows its workers less."""


class BackgroundWriter:
    """Runs one job at a time.

    The thread does not keep the process alive, as a disk may hang. At its end, whether with an exception or not, the
    process waits for the job for a bounded time.
    """

    def __init__(self) -> None:
        self._thread: threading.Thread | None = None

    @property
    def is_busy(self) -> bool:
        """True if a job is running."""
        return self._thread is not None and self._thread.is_alive()

    def start(self, job: Callable[[], None]) -> None:
        """Starts a job and returns.

        Args:
            job: Reports its own failures: what it raises is printed and ends nothing else.

        Raises:
            RuntimeError: Another job is running.
        """
        if self.is_busy:
            raise RuntimeError("Expected no running job. Wait for it with wait().")
        if self._thread is None:
            atexit.register(self._at_exit)
        self._thread = threading.Thread(target=job, name="tfdist-background", daemon=True)
        self._thread.start()

    def wait(self, seconds: float) -> bool:
        """Waits for the running job; returns whether none is running any more."""
        if self._thread is not None:
            self._thread.join(seconds)
        return not self.is_busy

    def _at_exit(self) -> None:
        self.wait(EXIT_SECONDS)


@functools.cache
def writer() -> BackgroundWriter:
    """The writer of this process's checkpoints."""
    return BackgroundWriter()
