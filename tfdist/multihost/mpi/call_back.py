"""The call of a rank to the launching host: two connections, each with a proof of the launch's secret by both sides.

    launching host    {"nonce": ...}
    rank              {"host": ..., "stream": "control" or "errors", "nonce": ..., "proof": ...}
    launching host    {"proof": ...}

After that "control" is the rank's stdin and stdout, and "errors" its stderr. The secret itself is never sent.
"""

from __future__ import annotations

import json
import socket
import time
from typing import Any, Literal

from tfdist import bounded_json
from tfdist.net.shared_token import Token, fresh_nonce, transcript

PLACES = "TFDIST_LAUNCH_AT"
"""Variable of a rank: where to call, `ADDRESS PORT` and more of them after commas."""
SECRET = "TFDIST_LAUNCH_SECRET"
ANSWER_SECONDS = 5.0
"""Seconds for which the launching host takes part in a call, whoever calls."""
CALL_SECONDS = 15.0
"""Seconds for which a rank takes part in a call: longer, as strangers may be before it."""
_MOST_BYTES = 4096

StreamName = Literal["control", "errors"]


class CallError(ValueError):
    """The other side is not one of this launch."""


def call(connection: socket.socket, token: Token, host: str, stream: StreamName) -> None:
    """The rank's side of a connection.

    Raises:
        CallError: The other side is not the launch.
        OSError: The connection failed.
    """
    deadline = time.monotonic() + CALL_SECONDS
    greeting = _receive(connection, deadline)
    said = {"host": host, "stream": stream, "nonce": fresh_nonce()}
    both = transcript(greeting, said)
    _send(connection, {**said, "proof": token.proof("caller", both)})
    if not token.proves("answerer", both, _receive(connection, deadline).get("proof")):
        raise CallError("it does not know the secret of the launch")


def answer_call(connection: socket.socket, token: Token, seconds: float = ANSWER_SECONDS) -> tuple[str, str]:
    """The launching host's side; returns the host and the stream.

    Raises:
        CallError: The other side is no rank of the launch.
        OSError: The connection failed.
    """
    deadline = time.monotonic() + seconds
    connection.settimeout(seconds)
    greeting = {"nonce": fresh_nonce()}
    _send(connection, greeting)
    said = _receive(connection, deadline)
    proof = said.pop("proof", None)
    both = transcript(greeting, said)
    host, stream = said.get("host"), said.get("stream")
    if not token.proves("caller", both, proof) or not isinstance(host, str) or not isinstance(stream, str):
        raise CallError("it does not know the secret of the launch")
    _send(connection, {"proof": token.proof("answerer", both)})
    return host, stream


def _send(connection: socket.socket, said: dict[str, Any]) -> None:
    connection.sendall(json.dumps(said).encode() + b"\n")


def _receive(connection: socket.socket, deadline: float) -> dict[str, Any]:
    # One byte at a time: what follows the line belongs to somebody else.
    line = b""
    while not line.endswith(b"\n"):
        left = deadline - time.monotonic()
        if left <= 0:
            raise CallError("it takes too long to say what it wants")
        connection.settimeout(left)
        byte = connection.recv(1)
        if not byte or len(line) > _MOST_BYTES:
            raise CallError("it ended the call, or said too much")
        line += byte
    try:
        said = bounded_json.parse(line)
    except ValueError:
        raise CallError("it speaks something else") from None
    if not isinstance(said, dict):
        raise CallError("it speaks something else")
    return said


def places_text(addresses: list[str], port: int) -> str:
    """The value of `PLACES`."""
    return ",".join(f"{address} {port}" for address in addresses)


def parse_places(text: str) -> list[tuple[str, int]]:
    """Reads the value of `PLACES`.

    Raises:
        CallError: It is none.
    """
    found = []
    for place in text.split(","):
        address, _, port = place.partition(" ")
        if not address or not port.isascii() or not port.isdigit() or not 0 < int(port[:6]) < 65536:
            raise CallError(f"{PLACES} expected addresses with ports. Received: {text[:200]!r}")
        found.append((address, int(port[:6])))
    return found
