"""Signals to the launcher: recorded when they come, and acted on where the launcher waits."""

from __future__ import annotations

import contextlib
import signal
import socket
import threading
import time
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_HOW: dict[int, str] = {
    signal.SIGINT: "Ctrl-C, SIGINT",
    signal.SIGHUP: "the terminal or the connection was closed, SIGHUP",
}


AT_ONCE_SECONDS = 2.0
"""Within it, several SIGTERM count as one."""


class LauncherStopped(Exception):
    """A signal ended the launcher before any worker ran."""

    def __init__(self, number: int) -> None:
        super().__init__(describe_signal(number))
        self.exit_code = 128 + number


def signal_name(number: int) -> str:
    """The signal's name; `signal 40` for one that has none, as most real-time signals."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def describe_signal(number: int, to: str = "the launcher") -> str:
    """The signal and the process that got it, in words."""
    how = _HOW.get(number) or signal_name(number)
    return f"{how} to {to} on {socket.gethostname()}"


class Signals:
    """While entered, SIGINT, SIGTERM and SIGHUP are recorded instead of obeyed, and wake whoever waits for this object.

    SIGINT is handled even where the launcher was started with it ignored, as non-interactive shells start background
    jobs: it is sent on purpose. SIGHUP stays ignored where it was, which is what nohup is for. A worker that is started
    meanwhile has the default actions, since handlers do not outlive exec. Outside the main thread Python allows no
    handlers, and no signal is handled.

    SIGTERM that comes again within `AT_ONCE_SECONDS` is the same: Slurm sends two when it preempts a job, and a second
    signal is to end a job that does not stop, not one that has just been asked.
    """

    def __init__(self) -> None:
        self.received: list[int] = []
        self.asked: str | None = None
        self._last: dict[int, float] = {}
        self._wake, self._woken = socket.socketpair()
        self._wake.setblocking(False)
        self._woken.setblocking(False)
        self._restore: list[Callable[[], Any]] = []

    def fileno(self) -> int:
        return self._woken.fileno()

    def drain(self) -> None:
        """Makes `fileno` unreadable until the next signal."""
        with contextlib.suppress(BlockingIOError):
            while self._woken.recv(4096):
                pass

    def ask(self, why: str) -> None:
        """Asks, from another thread, that the workers stop as for a signal, once they train; `why` says what for.

        What was asked stays in `asked` until that is set to None.
        """
        self.asked = why
        with contextlib.suppress(BlockingIOError):
            self._wake.send(b"\0")

    def check(self) -> None:
        """Raises `LauncherStopped` when a signal has come."""
        self.drain()
        if self.received:
            raise LauncherStopped(self.received[0])

    def __enter__(self) -> Signals:
        if threading.current_thread() is threading.main_thread():
            before = signal.set_wakeup_fd(self._wake.fileno(), warn_on_full_buffer=False)
            self._restore.append(lambda: signal.set_wakeup_fd(before))
            for number in _ENDING:
                if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:
                    self._handle(number, self._remember)
            # The end of a child wakes the launcher too.
            self._handle(signal.SIGCHLD, lambda *_: None)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        while self._restore:
            self._restore.pop()()
        self._wake.close()
        self._woken.close()

    def _handle(self, number: int, handler: Callable[[int, FrameType | None], None]) -> None:
        before = signal.signal(number, handler)
        self._restore.append(lambda: signal.signal(number, signal.SIG_DFL if before is None else before))

    def _remember(self, number: int, frame: FrameType | None) -> None:
        now, before = time.monotonic(), self._last.get(number)
        self._last[number] = now
        if number == signal.SIGTERM and before is not None and now - before < AT_ONCE_SECONDS:
            return
        self.received.append(number)
