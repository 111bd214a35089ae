"""The steps of an attempt to connect, looking up the name and connecting, neither of which waits; its outcome."""

from __future__ import annotations

import enum
import errno
import os
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tfdist.cluster.cluster_spec import Address
from tfdist.net.bounded_wait import is_writable

FRESH_SECONDS = 1.0
"""Seconds for which the result of a look-up is used, found or not, so that not every attempt asks the name server."""

Resolver = Callable[[Address], list[Any]]
# An HTTP/2 server begins with a frame of type 4, SETTINGS: three bytes of length, then the type.
_SETTINGS_FRAME = 4


def look_up(address: Address) -> list[Any]:
    """The targets that `getaddrinfo` finds for an address; none if the name does not resolve. May take long."""
    try:
        return socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return []


class Lookup:
    """Look-up of one address, in a thread because the system's resolver takes no timeout."""

    def __init__(self, address: Address, clock: Callable[[], float], resolver: Resolver = look_up) -> None:
        self._address = address
        self._clock = clock
        self._resolver = resolver
        self._thread: threading.Thread | None = None
        self._found: list[Any] = []
        self._until: float | None = None

    @property
    def is_running(self) -> bool:
        """True if a look-up was begun whose result nobody has taken."""
        return self._thread is not None

    def targets(self) -> list[Any] | None:
        """The targets, in a new list; None while the look-up runs."""
        if self._thread is None:
            if self._until is not None and self._clock() < self._until:
                return list(self._found)
            self._thread = threading.Thread(target=self._run, name=f"tfdist-resolve-{self._address.host}", daemon=True)
            self._thread.start()
        if self._thread.is_alive():
            return None
        self._thread = None
        self._until = self._clock() + FRESH_SECONDS
        return list(self._found)

    def _run(self) -> None:
        self._found = self._resolver(self._address)


def begin_connecting(target: Any) -> tuple[socket.socket | None, int]:
    """Starts to connect to one of the targets of a look-up.

    Returns:
        The socket that is connecting, and 0; or None and the errno.
    """
    family, kind, protocol, _, address = target
    connecting = None
    try:
        connecting = socket.socket(family, kind, protocol)
        connecting.setblocking(False)
        code = connecting.connect_ex(address)
    except OSError as error:
        code = error.errno or errno.EINVAL
    if code in (0, errno.EINPROGRESS):
        return connecting, 0
    if connecting is not None:
        connecting.close()
    return None, code


def finish_connecting(connecting: socket.socket) -> int | None:
    """0 once it is connected, the errno if that failed, None while it is still connecting."""
    if not is_writable(connecting):
        return None
    return connecting.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)


class DialStatus(enum.IntEnum):
    """The stage of an attempt; the order matters, as a host may have several addresses, and the farthest one counts."""

    NOT_TRIED = 0
    RESOLVING = 1
    CONNECTING = 2
    """No attempt has ended yet."""
    UNRESOLVED = 3
    UNREACHABLE = 4
    TIMED_OUT = 5
    REFUSED = 6
    CLOSED = 7
    """Connected, and closed by the other side before it introduced itself."""
    SILENT = 8
    STRANGER = 9
    """Connected to something that does not speak the protocol."""
    GRPC = 10
    """A stranger that is known: a gRPC server, such as TensorFlow's."""
    MISMATCHED = 11
    """Connected to one that has another token or none, or claims so; the detail says which."""
    LEFT = 12
    """Met, and gone again."""
    MET = 13


@dataclass(frozen=True)
class DialOutcome:
    """The result of one attempt.

    Attributes:
        status: How far it got.
        detail: What the system said of it; empty where the status says all.
    """

    status: DialStatus
    detail: str = ""


def of_errno(code: int) -> DialOutcome:
    """The outcome of a `connect` that failed with this errno."""
    if code == errno.ECONNREFUSED:
        return DialOutcome(DialStatus.REFUSED)
    if code == errno.ETIMEDOUT:
        return DialOutcome(DialStatus.TIMED_OUT)
    # EHOSTUNREACH and ENETUNREACH: "No route to host", "Network is unreachable".
    return DialOutcome(DialStatus.UNREACHABLE, os.strerror(code))


def of_first_bytes(data: bytes) -> DialOutcome:
    """The outcome where the other side begins with these bytes, which are not JSON."""
    if len(data) > 3 and data[3] == _SETTINGS_FRAME and not data[0]:
        return DialOutcome(DialStatus.GRPC)
    return DialOutcome(DialStatus.STRANGER)
