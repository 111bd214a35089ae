"""Signals to this worker that are the launcher's matter: it is told of them, and decides for all workers."""

from __future__ import annotations

import signal
import socket
import threading
from collections.abc import Callable
from types import FrameType

_READ_BYTES = 64


def relay_terminations(tell: Callable[[int], None]) -> None:
    """Has `tell` called with SIGTERM's number whenever this process gets it, instead of ending at once.

    It is noticed while the main thread is inside of TensorFlow, too. Call it once, in the main thread (in another it
    does nothing), after the strategy is made: TensorFlow's own handler would replace an earlier one. A script that sets
    a handler of its own has the signal for itself.

    Args:
        tell: Called in a thread of its own.
    """
    if threading.current_thread() is not threading.main_thread():
        return
    ours, theirs = socket.socketpair()
    theirs.setblocking(False)
    signal.set_wakeup_fd(theirs.fileno(), warn_on_full_buffer=False)

    def noted(number: int, frame: FrameType | None) -> None:
        """Python writes the number to `theirs`, whatever the main thread does; this only keeps the process alive."""

    signal.signal(signal.SIGTERM, noted)

    def read() -> None:
        with ours, theirs:
            while numbers := ours.recv(_READ_BYTES):
                if signal.SIGTERM in numbers and signal.getsignal(signal.SIGTERM) is noted:
                    tell(int(signal.SIGTERM))

    threading.Thread(target=read, name="tfdist-signals", daemon=True).start()
