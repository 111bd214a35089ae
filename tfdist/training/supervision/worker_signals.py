"""Signals to this worker, handled in a thread: also while the main thread is inside of TensorFlow."""

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

SignalHandler = Callable[[int], object]


def call_on_signal(number: int, handler: SignalHandler) -> None:
    """Has `handler` called whenever this process gets the signal, instead of the default action.

    Call it in the main thread; in another it does nothing. A handler that a script sets later replaces this one, and
    processes that the script forks have the default action.

    Args:
        number: The signal's. SIGTERM after the strategy is made: TensorFlow's own handler would replace an earlier one.
        handler: Called with the signal's number, in a thread of its own.
    """
    if threading.current_thread() is threading.main_thread():
        _listener().take(number, handler)


class _Listener:
    """Reads signals in a thread: Python writes each one's number to a socket, whatever the main thread does."""

    def __init__(self) -> None:
        self._handlers: dict[int, SignalHandler] = {}
        self._read, self._written = socket.socketpair()
        self._written.setblocking(False)
        signal.set_wakeup_fd(self._written.fileno(), warn_on_full_buffer=False)
        self._masks = threading.local()
        os.register_at_fork(before=self._block, after_in_parent=self._unblock, after_in_child=self._reset)
        threading.Thread(target=self._listen, name="tfdist-signals", daemon=True).start()

    def take(self, number: int, handler: SignalHandler) -> None:
        self._handlers[number] = handler
        signal.signal(number, _keep_alive)

    def notice(self, number: int) -> None:
        """Called in the main thread, as soon as it runs Python: handles signals whose numbers another listener took.

        Such as asyncio, for a handler of its own, also after its loop has been closed.
        """
        ours = self._written.fileno()
        others = signal.set_wakeup_fd(ours, warn_on_full_buffer=False)
        if others != ours:
            if others != -1:
                signal.set_wakeup_fd(others, warn_on_full_buffer=False)
            with contextlib.suppress(BlockingIOError):  # full of numbers that the thread has yet to read
                self._written.send(bytes([number]))

    def _listen(self) -> None:
        while numbers := self._read.recv(_READ_BYTES):
            for number in numbers:
                self._handle(number)

    def _handle(self, number: int) -> None:
        if number not in self._handlers or signal.getsignal(number) is not _keep_alive:
            return
        try:
            self._handlers[number](number)
        except Exception:
            # The thread must live for the next signal.
            _log.exception("A signal to this worker, %s, could not be handled.", signal.Signals(number).name)

    def _block(self) -> None:
        """Before a fork, in the thread that forks: a signal to the new process must not reach this one's socket."""
        self._masks.before = signal.pthread_sigmask(signal.SIG_BLOCK, self._handlers)

    def _unblock(self) -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, self._masks.before)

    def _reset(self) -> None:
        """In the new process: its signals have their default actions."""
        signal.set_wakeup_fd(-1)
        for number in self._handlers:
            if signal.getsignal(number) is _keep_alive:
                signal.signal(number, signal.SIG_DFL)
        self._unblock()


_listener = functools.cache(_Listener)


def _keep_alive(number: int, frame: FrameType | None) -> None:
    """The Python handler: keeps the process alive, while the number is on its way to the thread."""
    _listener().notice(number)
