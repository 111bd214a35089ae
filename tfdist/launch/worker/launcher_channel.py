"""The worker's end of the channel to its launcher, `channel_protocol` lists the messages; and the post to the chief.

By that a worker tells the chief's process something. It takes another way than the run directory, which may be on a
disk that is full, and needs no collective, for which all workers would have to come to the same place of the program.
"""

from __future__ import annotations

import contextlib
import functools
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

_RECEIVE_BYTES = 65536
MessageHandler = Callable[[Any], Mapping[str, Any] | None]
_log = logging.getLogger("tfdist")
Content = Mapping[str, Any]
"""The content of what is told, in JSON's types."""
MOST_UNREAD = 4096
"""Letters that are kept for readers that have not come yet; beyond them the oldest are lost."""


def _end_this_worker() -> None:
    """Ends this process and its process group at once: without a launcher nothing else would."""
    if os.getpgrp() == os.getpid():
        os.killpg(os.getpgrp(), signal.SIGKILL)
    os._exit(128 + signal.SIGTERM)


class LauncherChannel:
    """A worker's connection to its launcher.

    Args:
        fd: The inherited socket's file descriptor (`Assignment.channel_fd`); the channel closes it.
        on_lost: Called once, in the watching thread, when the launcher is gone before it released this worker.
        handlers: By a message's key (`hold`, `stop`, `dump`, `post`), what is called in the watching thread with the
            message's value; what it returns is sent back. Messages without a handler are ignored.
    """

    def __init__(
        self,
        fd: int,
        on_lost: Callable[[], None] = _end_this_worker,
        handlers: Mapping[str, MessageHandler] | None = None,
    ) -> None:
        self._socket = socket.socket(fileno=fd)
        self._socket.setblocking(True)
        # Processes that the script starts must not keep the socket open after this process has ended.
        self._socket.set_inheritable(False)
        self._on_lost = on_lost
        self._handlers = dict(handlers or {})
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
        """Reports that this worker is done, and waits until all workers are.

        Args:
            code: What this process is about to exit with.

        Returns:
            Whether the launcher released this worker within the time.
        """
        self.watch()
        if not self._send({"finished": code}):
            return False
        return self._released.wait(timeout)

    def failed(self, error: Mapping[str, Any]) -> None:
        """Reports the error that ends this worker, for when its error file cannot be written."""
        self._send({"failed": dict(error)})

    def beat(self, state: Mapping[str, Any]) -> None:
        """Reports what this worker is doing; drops the report when the socket is full, as the next one will come."""
        self._send_or_drop({"beat": dict(state)})

    def progress(self, told: Mapping[str, Any] | None) -> None:
        """Reports how far the run is, as `beat` does; None when the training is over."""
        self._send_or_drop({"progress": None if told is None else dict(told)})

    def post(self, letter: Mapping[str, Any]) -> bool:
        """Hands on what the chief's process is to learn; see `ChiefPost`. Whether the launcher may still read it."""
        return self._send({"post": dict(letter)})

    def signalled(self, number: int) -> None:
        """Reports a signal that is meant for the whole job."""
        self._send({"signal": number})

    def _send_or_drop(self, message: Mapping[str, Any]) -> None:
        with contextlib.suppress(OSError, ValueError):
            if is_writable(self._socket):
                self._send(message)

    def _send(self, message: Mapping[str, Any]) -> bool:
        """Sends one whole message, from any thread; returns whether the launcher may still read it."""
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
        for name in message.keys() & self._handlers.keys():
            try:
                reply = self._handlers[name](message[name])
            except Exception:
                # This thread must survive: it ends the worker when the launcher is gone.
                _log.exception("The launcher's message %r could not be answered.", name)
                continue
            if reply is not None:
                self._send(reply)


class ChiefPost:
    """This process's end of it: the chief reads, all others write."""

    def __init__(self) -> None:
        self._send: Callable[[Content], bool] | None = None
        self._unread: list[tuple[str, Content]] = []
        self._lock = threading.Lock()

    def connect(self, send: Callable[[Content], bool]) -> None:
        """Takes the way to this worker's launcher, which tells whether that can still be reached."""
        self._send = send

    def tell(self, subject: str, content: Content) -> bool:
        """Tells the chief, from any thread; returns whether it may come: a worker without a launcher has no post."""
        return self._send is not None and self._send({"subject": subject, "content": dict(content)})

    def deliver(self, letter: Any) -> None:
        """Takes what another worker has told. What is no letter is left alone."""
        match letter:
            case {"subject": str(subject), "content": dict(content)}:
                with self._lock:
                    self._unread = [*self._unread[1 - MOST_UNREAD :], (subject, content)]

    def read(self, subject: str) -> list[Content]:
        """Returns what has come on a subject since the last call, in its order."""
        with self._lock:
            found = [content for about, content in self._unread if about == subject]
            self._unread = [letter for letter in self._unread if letter[0] != subject]
        return found


@functools.cache
def chief_post() -> ChiefPost:
    """The post of this process."""
    return ChiefPost()
