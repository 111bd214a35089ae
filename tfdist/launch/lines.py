"""JSON objects as lines over a socket, bounded in size and never blocking: what launchers and workers speak."""

from __future__ import annotations

import json
import socket
from typing import Any

MAX_LINE_BYTES = 1 << 20
_RECEIVE_BYTES = 65536

Message = dict[str, Any]


class LineError(ValueError):
    """The peer sent something that is no JSON object on a line, or a line that is too long."""


class LineBuffer:
    """Cuts a stream of bytes into the JSON objects of its lines."""

    def __init__(self, max_bytes: int = MAX_LINE_BYTES) -> None:
        self._rest = bytearray()
        self._max_bytes = max_bytes

    def feed(self, data: bytes) -> list[Message]:
        """Adds `data` and returns the messages that are whole now.

        Raises:
            LineError: A line is too long, or is not a JSON object.
        """
        self._rest += data
        *lines, rest = self._rest.split(b"\n")
        self._rest = rest
        if max(map(len, (*lines, rest))) > self._max_bytes:
            raise LineError(f"a line of more than {self._max_bytes} bytes")
        return [_parse(bytes(line)) for line in lines]


def _parse(line: bytes) -> Message:
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        raise LineError(f"a line that is not JSON: {line[:60]!r}") from None
    if not isinstance(message, dict):
        raise LineError(f"a line that is not a JSON object: {line[:60]!r}")
    return message


class LineSocket:
    """A connected socket that carries messages; it never blocks.

    What cannot be sent yet waits in memory: call `flush` now and then.
    """

    def __init__(self, connection: socket.socket, max_bytes: int = MAX_LINE_BYTES) -> None:
        connection.setblocking(False)
        self._socket = connection
        self._incoming = LineBuffer(max_bytes)
        self._received: list[Message] = []
        self._outgoing = bytearray()
        self._closed = False

    @property
    def connection(self) -> socket.socket:
        """The socket, for its options."""
        return self._socket

    def fileno(self) -> int:
        return self._socket.fileno()

    def is_closed(self) -> bool:
        """Whether this side has closed, or found the other side gone."""
        return self._closed

    def send(self, message: Message) -> None:
        """Sends `message`, or keeps it for `flush`. To a peer that is gone it does nothing."""
        if not self._closed:
            self._outgoing += json.dumps(message).encode() + b"\n"
            self.flush()

    def flush(self) -> None:
        """Sends what the socket takes now."""
        while self._outgoing and not self._closed:
            try:
                sent = self._socket.send(self._outgoing)
            except (BlockingIOError, InterruptedError):
                return
            except OSError:
                # The peer is gone. What it said last may still be unread, so only sending ends here.
                self._outgoing.clear()
                return
            del self._outgoing[:sent]

    def receive(self, limit: int | None = None) -> list[Message]:
        """The messages that have come, `limit` of them at most; afterwards `is_closed` tells if the peer is gone.

        Raises:
            LineError: The peer does not speak this language.
        """
        while not self._closed:
            try:
                data = self._socket.recv(_RECEIVE_BYTES)
            except (BlockingIOError, InterruptedError):
                break
            except OSError:
                data = b""
            if not data:
                self.close()
                break
            self._received += self._incoming.feed(data)
        messages = self._received[:limit]
        del self._received[:limit]
        return messages

    def close(self) -> None:
        self._closed = True
        self._socket.close()
