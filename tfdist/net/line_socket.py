"""Socket that carries JSON objects as lines, bounded in size and never blocking: for launchers, doctors and workers."""

from __future__ import annotations

import json
import socket
from collections import deque
from typing import Any

from tfdist import bounded_json
from tfdist.net.shared_token import Seal

MAX_LINE_BYTES = 1 << 20
MAX_PEER_LINE_BYTES = 16 << 20
"""Between launchers that have met: one message may hold the failures and stacks of all workers of a host."""
MAX_HELLO_BYTES = 256 * 1024
"""From a stranger."""
_RECEIVE_BYTES = 65536
_MAX_RECEIVE_BYTES = 4 << 20
"""The most that one call reads: a peer that sends without end must not keep this side from all others."""

Message = dict[str, Any]


class LineError(ValueError):
    """The peer sent a line that is not a JSON object, or one that is too long."""


def encode(message: Message) -> bytes:
    """The message as it is sent, without its end."""
    return json.dumps(message).encode()


class LineBuffer:
    """Splits a stream of bytes into lines, and reads the JSON objects on them."""

    def __init__(self, max_bytes: int = MAX_LINE_BYTES) -> None:
        self.max_bytes = max_bytes
        self._rest = bytearray()

    def feed(self, data: bytes) -> list[Message]:
        """Adds `data` and returns the messages that are complete now.

        Raises:
            LineError: A line is too long, or is not a JSON object.
        """
        return [_parse(line) for line in self.cut(data)]

    def cut(self, data: bytes) -> list[bytes]:
        """Adds `data` and returns the lines that are complete now, without their ends.

        Raises:
            LineError: A line is too long.
        """
        first, *others = data.split(b"\n")
        self._rest += first
        lines = []
        for other in others:
            lines.append(bytes(self._rest))
            self._rest = bytearray(other)
        if max(map(len, (*lines, self._rest))) > self.max_bytes:
            raise LineError(f"a line of more than {self.max_bytes} bytes")
        return lines


def _parse(line: bytes) -> Message:
    try:
        message = bounded_json.parse(line)
    except ValueError:
        raise LineError(f"a line that is not JSON: {line[:60]!r}") from None
    if not isinstance(message, dict):
        raise LineError(f"a line that is not a JSON object: {line[:60]!r}")
    return message


class LineSocket:
    """A connected socket that carries messages; it never blocks.

    What cannot be sent yet waits in memory until `flush` is called.
    """

    def __init__(self, connection: socket.socket, max_bytes: int = MAX_LINE_BYTES) -> None:
        connection.setblocking(False)
        self._socket = connection
        self._incoming = LineBuffer(max_bytes)
        self._lines: deque[bytes] = deque()
        self._outgoing = bytearray()
        self._closed = False
        self._sending: Seal | None = None
        self._receiving: Seal | None = None

    def allow(self, max_bytes: int) -> None:
        """Accepts lines of up to `max_bytes` from here on: the peer is no longer a stranger."""
        self._incoming.max_bytes = max_bytes

    def protect(self, sending: Seal, receiving: Seal) -> None:
        """Seals what is sent and accepts only what is sealed, from the next message on in both directions."""
        self._sending, self._receiving = sending, receiving

    @property
    def connection(self) -> socket.socket:
        """The socket, for its options."""
        return self._socket

    def fileno(self) -> int:
        return self._socket.fileno()

    def is_closed(self) -> bool:
        """Returns whether this side has closed, or found the other side gone."""
        return self._closed

    def send(self, message: Message) -> None:
        """Sends `message`, or keeps it for `flush`. To a peer that is gone it does nothing."""
        if not self._closed:
            self.send_encoded(encode(message))

    def send_encoded(self, body: bytes) -> None:
        """`send` for a message that many are sent, and that is therefore encoded already."""
        if not self._closed:
            self._outgoing += (body if self._sending is None else self._sending.close(body)) + b"\n"
            self.flush()

    @property
    def has_unsent(self) -> bool:
        """True if something waits in memory for `flush`."""
        return bool(self._outgoing) and not self._closed

    def flush(self) -> None:
        """Sends what the socket takes now."""
        while self._outgoing and not self._closed:
            try:
                sent = self._socket.send(self._outgoing)
            except (BlockingIOError, InterruptedError):
                return
            except OSError:
                # The peer is gone. Its last messages may still be unread, so only sending ends here.
                self._outgoing.clear()
                return
            del self._outgoing[:sent]

    def receive(self, limit: int | None = None) -> list[Message]:
        """The messages that have come, at most `limit`; afterwards `is_closed` tells whether the peer is gone.

        Raises:
            LineError: What came is not a message.
        """
        self._read(limit)
        messages: list[Message] = []
        while self._lines and (limit is None or len(messages) < limit):
            messages.append(self._open(self._lines.popleft()))
        return messages

    def _read(self, limit: int | None) -> None:
        read = 0
        while not self._closed and read < _MAX_RECEIVE_BYTES and (limit is None or len(self._lines) < limit):
            try:
                data = self._socket.recv(_RECEIVE_BYTES)
            except (BlockingIOError, InterruptedError):
                return
            except OSError:
                data = b""
            if not data:
                self.close()
                return
            read += len(data)
            self._lines += self._incoming.cut(data)

    def _open(self, line: bytes) -> Message:
        if self._receiving is None:
            return _parse(line)
        body = self._receiving.open(line)
        if body is None:
            raise LineError("a message without the seal of this conversation")
        return _parse(body)

    def close(self) -> None:
        self._closed = True
        self._socket.close()
