"""The process of `tfdist train` on a host, and the end of it and of all that it has started."""

from __future__ import annotations

import contextlib
import ctypes
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from typing import IO

from tfdist.launch.worker.orphans import end_children, reap

_PR_SET_PDEATHSIG = 1
_EXTRA_SECONDS = 15.0
"""Seconds beyond its grace that `tfdist train` may take to end before it is killed."""


class RemoteChild:
    """A started `tfdist train`.

    Args:
        arguments: Of `tfdist`.
        environ: Its environment.
        grace: Seconds in which it may stop at a step boundary.
        output: Its stdout and stderr; None for this process's own.
        is_detached: Whether it outlives this process.

    Raises:
        OSError: It cannot be started.
    """

    def __init__(
        self,
        arguments: list[str],
        environ: Mapping[str, str],
        grace: float,
        output: IO[bytes] | None = None,
        *,
        is_detached: bool = False,
    ) -> None:
        self._grace = grace
        self._deadline: float | None = None
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tfdist", *arguments],
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            preexec_fn=None if is_detached else _end_with_parent,  # noqa: PLW1509  this process has one thread
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    def poll(self) -> int | None:
        """Its exit code, 128 + N after signal N; None while it runs. Kills it where it has not stopped in time."""
        if self._deadline is not None and time.monotonic() > self._deadline:
            end_children(own={self.pid})
        reap({self.pid})
        code = self._process.poll()
        return code if code is None or code >= 0 else 128 - code

    def stop(self, number: int = signal.SIGTERM) -> None:
        """Sends it a signal to stop by, and sets the time by which it must have."""
        self.expect_end()
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(number)

    def expect_end(self) -> None:
        """Sets the time by which it must have ended, by itself or not."""
        if self._deadline is None:
            self._deadline = time.monotonic() + self._grace + _EXTRA_SECONDS


def _end_with_parent() -> None:
    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
