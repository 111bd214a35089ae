"""The worker's side of the socket to its launcher: JSON lines, one object each.

What a worker says:

- `{"beat": STATE}`: what it does, a `WorkerState`; at every change, and about once a second while it gets on.
- `{"begun": N}` answers `hold`: batches of training and evaluation that it has begun since it started. It begins no
  other until it is told where to stop. `{"begun": null}` when it is in no `fit`, and so has no step to stop at.
- `{"stacks": TEXT, "where": LINE, "called": LINE}` answers `dump`: the Python stacks of its threads, in one line where
  the main thread is, and where the user's functions are that run in other threads for it; the last may be empty.
- `{"signal": N}`: it got SIGTERM, say, as a scheduler sends it to every process of a job.
- `{"finished": CODE}`: its work is done.
- `{"failed": RECORD}`: its last word, when it cannot write its error file.

What the launcher says:

- `{"hold": true}`, then `{"stop": {"after": N, "code": CODE}}`: stop once N batches are done, the same on all workers;
  save a checkpoint where the run can, and exit with CODE.
- `{"dump": true}`: say where you are. Who does not answer gets the signal NATIVE_DUMP.
- `{"release": true}`: every worker of the job is done. A TensorFlow worker that leaves early takes the others down.

The end of the stream before `release` means that the launcher is gone.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import signal
import socket
import threading
from collections.abc import Callable, Mapping
from typing import Any

from tfdist.net.bounded_wait import is_writable
from tfdist.net.line_socket import LineBuffer, LineError

CALLED = " (called by TensorFlow or Keras)"
"""Behind the names of those threads, in the stacks, that run the user's functions for the main thread."""

NATIVE_DUMP: int | None = signal.SIGRTMIN + 7 if hasattr(signal, "SIGRTMIN") else None
"""The signal at which a worker writes its stacks into its log, though native code holds Python's lock.

It walks over the stacks without that lock, so in a worker whose threads do run Python it may end in SIGSEGV. The better
known signals are left to scripts. None where the system has none of this kind.
"""

_RECEIVE_BYTES = 65536

MessageHandler = Callable[[Any], Mapping[str, Any] | None]

_log = logging.getLogger("tfdist")


def _end_this_worker() -> None:
    """Ends this process and what it started, at once: without a launcher nobody else would."""
    if os.getpgrp() == os.getpid():
        os.killpg(os.getpgrp(), signal.SIGKILL)
    os._exit(128 + signal.SIGTERM)


class LauncherChannel:
    """A worker's line to its launcher.

    Args:
        fd: The inherited socket's file descriptor (`Assignment.channel_fd`); the channel owns it from here on.
        on_lost: Called once, in the watching thread, when the launcher is gone before it released this worker.
        answers: Called, in the watching thread, with the value of what the launcher says under a key (`hold`, `stop`,
            `dump`); what it returns is sent back. What nothing answers to is passed over.
    """

    def __init__(
        self,
        fd: int,
        on_lost: Callable[[], None] = _end_this_worker,
        answers: Mapping[str, MessageHandler] | None = None,
    ) -> None:
        self._socket = socket.socket(fileno=fd)
        self._socket.setblocking(True)
        # What the script starts must not keep the line open after this process's end.
        self._socket.set_inheritable(False)
        self._on_lost = on_lost
        self._answers = dict(answers or {})
        self._sending = threading.Lock()
        self._released = threading.Event()
        self._watcher: threading.Thread | None = None

    def watch(self) -> None:
        """Starts, once, the daemon thread that ends this process when the launcher is gone.

        Call it before anything slow, such as importing TensorFlow.
        """
        if self._watcher is None:
            self._watcher = threading.Thread(target=self._read, name="tfdist-channel", daemon=True)
            self._watcher.start()

    def finished(self, code: int, timeout: float) -> bool:
        """Tells the launcher that this worker is done with exit code `code`, and waits until all workers are.

        Args:
            code: What this process is about to exit with.
            timeout: Seconds to wait for the others.

        Returns:
            Whether the launcher released this worker within the time.
        """
        self.watch()
        if not self._send({"finished": code}):
            return False
        return self._released.wait(timeout)

    def failed(self, record: Mapping[str, Any]) -> None:
        """Tells the launcher of the error that ends this worker, for when no disk takes the error file."""
        self._send({"failed": dict(record)})

    def beat(self, state: Mapping[str, Any]) -> None:
        """Tells the launcher what this worker does. A launcher that does not listen now misses it: more will come."""
        with contextlib.suppress(OSError, ValueError):
            if is_writable(self._socket):
                self._send({"beat": dict(state)})

    def signalled(self, number: int) -> None:
        """Tells the launcher of a signal that is meant for the whole job."""
        self._send({"signal": number})

    def _send(self, message: Mapping[str, Any]) -> bool:
        """Sends one message whole, from whatever thread; returns whether somebody may hear it."""
        with self._sending:
            try:
                self._socket.sendall(json.dumps(message).encode() + b"\n")
            except OSError:
                return False
        return True

    def _read(self) -> None:
        buffer = LineBuffer()
        while True:
            try:
                data = self._socket.recv(_RECEIVE_BYTES)
                messages = buffer.feed(data)
            except (OSError, LineError):
                data, messages = b"", []
            for message in messages:
                if message.get("release"):
                    self._released.set()
                    return
                self._answer(message)
            if not data:
                self._on_lost()
                return

    def _answer(self, message: Mapping[str, Any]) -> None:
        for name in message.keys() & self._answers.keys():
            try:
                said = self._answers[name](message[name])
            except Exception:
                # This thread is what ends the worker when the launcher is gone: it must go on.
                _log.exception("The launcher's message %r could not be answered.", name)
                continue
            if said is not None:
                self._send(said)
