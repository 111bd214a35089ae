"""Deadline of a selftest: when its time is up, the job under way is ended as by SIGTERM."""

from __future__ import annotations

import os
import signal
import threading
import time


class Deadline:
    """While entered, sends this process SIGTERM once, when the time is up. Enter it inside of `Signals`.

    A job that runs then ends as it would if a user had sent the signal, with every process that it has started.

    Args:
        seconds: How much time there is.
    """

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds
        self._timer = threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGTERM))
        self._timer.daemon = True

    @property
    def left(self) -> float:
        """Seconds that are left; not negative."""
        return max(0.0, self._end - time.monotonic())

    @property
    def passed(self) -> bool:
        """True if the time is up."""
        return self.left == 0.0

    def __enter__(self) -> Deadline:
        self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()
        # A signal that is under way comes while it is still handled.
        self._timer.join()
