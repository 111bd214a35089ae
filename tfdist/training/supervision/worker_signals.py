"""Signals to this worker, told in a thread of their own: while the main thread is inside of TensorFlow, too."""

from __future__ import annotations

import contextlib
import functools
import logging
import os
import signal
import socket
import threading
from collections.abc import Callable
from types import FrameType

_READ_BYTES = 64

_log = logging.getLogger("tfdist")

Tell = Callable[[int], object]


def tell_of(number: int, tell: Tell) -> None:
    """Has `tell` called whenever this process gets the signal, instead of what the signal does by default.

    Call it in the main thread; in another it does nothing. A script that sets a handler of its own later has the signal
    for itself, and processes that it forks have the default action.

    Args:
        number: The signal's. SIGTERM after the strategy is made: TensorFlow's own handler would replace an earlier one.
        tell: Called with the signal's number, in a thread of its own.
    """
    if threading.current_thread() is threading.main_thread():
        _listener().take(number, tell)


class _Listener:
    """Python writes each signal's number to a socket, whatever the main thread does, and a thread reads them."""

    def __init__(self) -> None:
        self._tells: dict[int, Tell] = {}
        self._read, self._written = socket.socketpair()
        self._written.setblocking(False)
        signal.set_wakeup_fd(self._written.fileno(), warn_on_full_buffer=False)
        self._masks = threading.local()
        os.register_at_fork(before=self._hold_back, after_in_parent=self._let_in, after_in_child=self._leave)
        threading.Thread(target=self._listen, name="tfdist-signals", daemon=True).start()

    def take(self, number: int, tell: Tell) -> None:
        self._tells[number] = tell
        signal.signal(number, _noted)

    def notice(self, number: int) -> None:
        """Called in the main thread, as soon as it runs Python: what has another listener for signals has not told.

        That is asyncio, say, for a handler of its own, also after its loop has been closed.
        """
        ours = self._written.fileno()
        others = signal.set_wakeup_fd(ours, warn_on_full_buffer=False)
        if others != ours:
            if others != -1:
                signal.set_wakeup_fd(others, warn_on_full_buffer=False)
            with contextlib.suppress(BlockingIOError):  # full of signals that the thread has yet to read
                self._written.send(bytes([number]))

    def _listen(self) -> None:
        while numbers := self._read.recv(_READ_BYTES):
            for number in numbers:
                self._tell(number)

    def _tell(self, number: int) -> None:
        if number not in self._tells or signal.getsignal(number) is not _noted:
            return
        try:
            self._tells[number](number)
        except Exception:
            # This thread is there for the next signal, too.
            _log.exception("A signal to this worker, %s, was not heeded.", signal.Signals(number).name)

    def _hold_back(self) -> None:
        """Before a fork, in the thread that forks: else what ends the new process at once would be told of this one."""
        self._masks.before = signal.pthread_sigmask(signal.SIG_BLOCK, self._tells)

    def _let_in(self) -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, self._masks.before)

    def _leave(self) -> None:
        """In the new process: its signals are its own."""
        signal.set_wakeup_fd(-1)
        for number in self._tells:
            if signal.getsignal(number) is _noted:
                signal.signal(number, signal.SIG_DFL)
        self._let_in()


_listener = functools.cache(_Listener)


def _noted(number: int, frame: FrameType | None) -> None:
    """Keeps the process alive; the number is on its way to the thread."""
    _listener().notice(number)
