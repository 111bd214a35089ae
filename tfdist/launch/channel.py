"""The worker's side of the socket to its launcher: JSON lines, one object each.

The worker says `{"finished": CODE}` when its work is done; the launcher answers `{"release": true}` when every worker
of the job is, since a TensorFlow worker that leaves early takes the others down. The end of the stream before that
means that the launcher is gone. A worker that cannot write its error file says `{"failed": RECORD}` as its last word.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import threading
from collections.abc import Callable, Mapping
from typing import Any

from tfdist.launch.lines import LineBuffer, LineError

_RECEIVE_BYTES = 65536


def _end_this_worker() -> None:
    """Ends this process and what it started, at once: without a launcher nobody else would."""
    if os.getpgrp() == os.getpid():
        os.killpg(os.getpgrp(), signal.SIGKILL)
    os._exit(128 + signal.SIGTERM)


class WorkerChannel:
    """A worker's line to its launcher.

    Args:
        fd: The inherited socket's file descriptor (`Assignment.channel_fd`); the channel owns it from here on.
        on_lost: Called once, in the watching thread, when the launcher is gone before it released this worker.
    """

    def __init__(self, fd: int, on_lost: Callable[[], None] = _end_this_worker) -> None:
        self._socket = socket.socket(fileno=fd)
        self._socket.setblocking(True)
        # What the script starts must not keep the line open after this process's end.
        self._socket.set_inheritable(False)
        self._on_lost = on_lost
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
        try:
            self._socket.sendall(json.dumps({"finished": code}).encode() + b"\n")
        except OSError:
            return False
        return self._released.wait(timeout)

    def failed(self, record: Mapping[str, Any]) -> None:
        """Tells the launcher of the error that ends this worker, for when no disk takes the error file."""
        with contextlib.suppress(OSError):
            self._socket.sendall(json.dumps({"failed": dict(record)}).encode() + b"\n")

    def _read(self) -> None:
        buffer = LineBuffer()
        while True:
            try:
                data = self._socket.recv(_RECEIVE_BYTES)
                messages = buffer.feed(data)
            except (OSError, LineError):
                data, messages = b"", []
            if any(message.get("release") for message in messages):
                self._released.set()
                return
            if not data:
                self._on_lost()
                return
