"""What is written while training goes on: one job at a time, in a thread of its own."""

from __future__ import annotations

import atexit
import functools
import threading
from collections.abc import Callable

EXIT_SECONDS = 30.0
"""How long a process that ends waits for the job under way; `tfdist train` allows its workers less."""


class BackgroundWriter:
    """Does one job at a time.

    The thread does not keep the process from ending: a disk that hangs must not. The process waits for it all the same,
    for a bounded time, whether it ends well or with an exception.
    """

    def __init__(self) -> None:
        self._thread: threading.Thread | None = None

    @property
    def is_busy(self) -> bool:
        """Whether a job is under way."""
        return self._thread is not None and self._thread.is_alive()

    def start(self, job: Callable[[], None]) -> None:
        """Begins a job and returns.

        Args:
            job: Tells of its own failures: what it raises is printed and ends it alone.

        Raises:
            RuntimeError: Another is under way.
        """
        if self.is_busy:
            raise RuntimeError("Expected no job under way. Wait for it with wait().")
        if self._thread is None:
            atexit.register(self._at_exit)
        self._thread = threading.Thread(target=job, name="tfdist-background", daemon=True)
        self._thread.start()

    def wait(self, seconds: float) -> bool:
        """Waits for the job under way; returns whether none is under way any more."""
        if self._thread is not None:
            self._thread.join(seconds)
        return not self.is_busy

    def _at_exit(self) -> None:
        self.wait(EXIT_SECONDS)


@functools.cache
def writer() -> BackgroundWriter:
    """The one that writes this process's checkpoints."""
    return BackgroundWriter()
