"""The steps of an attempt to connect, looking up the name and connecting, neither of which ever waits."""

from __future__ import annotations

import errno
import socket
import threading
from collections.abc import Callable
from typing import Any

from tfdist.cluster.cluster_spec import Address
from tfdist.net.bounded_wait import is_writable

FRESH_SECONDS = 1.0
"""Seconds for which the result of a look-up is used, found or not, so that not every attempt asks the name server."""

Resolver = Callable[[Address], list[Any]]


def look_up(address: Address) -> list[Any]:
    """The targets that `getaddrinfo` finds for an address; none if the name does not resolve. May take long."""
    try:
        return socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return []


class Lookup:
    """Look-up of one address, in a thread because the system's resolver takes no timeout.

    Args:
        address: The address.
        clock: Seconds, never going back.
        resolver: Looks the address up.
    """

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
