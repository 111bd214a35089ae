"""Looks names up and connects to addresses, without ever waiting: the steps of whoever dials."""

from __future__ import annotations

import errno
import socket
import threading
from collections.abc import Callable
from typing import Any

from tfdist.cluster.cluster_spec import Address
from tfdist.net.bounded_wait import is_writable

FRESH_SECONDS = 1.0
"""How long what was looked up counts, found or not: a name server is not asked at every attempt to connect."""

Resolver = Callable[[Address], list[Any]]


def look_up(address: Address) -> list[Any]:
    """What `getaddrinfo` knows of an address; nothing where the name does not resolve. May take long."""
    try:
        return socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return []


class Lookup:
    """What one address leads to, looked up in a thread because the system's resolver cannot be given a bound.

    Args:
        address: Which.
        clock: Seconds, never going back.
        resolver: Looks it up.
    """

    def __init__(self, address: Address, clock: Callable[[], float], resolver: Resolver = look_up) -> None:
        self._address = address
        self._clock = clock
        self._resolver = resolver
        self._thread: threading.Thread | None = None
        self._found: list[Any] = []
        self._until: float | None = None

    def targets(self) -> list[Any] | None:
        """What `getaddrinfo` said, a new list; None while it is asked."""
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
    """Begins to connect to one of the targets of a look-up.

    Returns:
        The socket, on its way, and 0; or None and the errno of why it is not.
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
    """0 when it is connected, the errno when that failed, None while it is on its way."""
    if not is_writable(connecting):
        return None
    return connecting.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
