"""Looks a worker's address up and connects to it, again and again until it answers; never blocks."""

from __future__ import annotations

import errno
import socket
import threading
from collections.abc import Callable
from typing import Any

from tfdist.cluster.spec import Address
from tfdist.doctor.sightings import CONNECT_SECONDS, Kind, Sighting, of_error
from tfdist.launch.waiting import is_writable

_RETRY_SECONDS = 0.2

LookUp = Callable[[Address], list[Any]]


def look_up(address: Address) -> list[Any]:
    """What `getaddrinfo` knows of an address; nothing where the name does not resolve. May take long."""
    try:
        return socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return []


class _Lookup:
    """One look-up, in a thread because the system's resolver cannot be given a bound."""

    def __init__(self, address: Address, resolver: LookUp) -> None:
        self.found: list[Any] | None = None
        self._address, self._resolver = address, resolver
        threading.Thread(target=self._run, name=f"tfdist-resolve-{address.host}", daemon=True).start()

    def _run(self) -> None:
        self.found = self._resolver(self._address)


class Reach:
    """Attempts to connect to one address.

    Args:
        address: Whose.
        clock: Seconds, never going back.
        resolver: Looks the address up.
    """

    def __init__(self, address: Address, clock: Callable[[], float], resolver: LookUp = look_up) -> None:
        self.sighting = Sighting(Kind.NOT_TRIED)
        self._address = address
        self._clock = clock
        self._resolver = resolver
        self._lookup: _Lookup | None = None
        self._targets: list[Any] = []
        self._connecting: socket.socket | None = None
        self._deadline = 0.0
        self._next_try = 0.0

    def waiting_for(self) -> list[socket.socket]:
        """What must become writable before `step` gets on; nothing while a name is looked up."""
        return [self._connecting] if self._connecting is not None else []

    def step(self) -> socket.socket | None:
        """Gets on without waiting; returns the connection once there is one."""
        if self._connecting is not None:
            return self._finish(self._connecting)
        if not self._targets and self._clock() >= self._next_try:
            self._look_up()
        if self._targets:
            self._connect()
        return None

    def retry(self, sighting: Sighting) -> None:
        """Begins anew a little later, because of what was seen. Other addresses of the name come first."""
        self.close()
        self.sighting = sighting
        self._next_try = self._clock() + _RETRY_SECONDS

    def close(self) -> None:
        """Ends the attempt."""
        if self._connecting is not None:
            self._connecting.close()
            self._connecting = None

    def _look_up(self) -> None:
        if self._lookup is None:
            self._lookup = _Lookup(self._address, self._resolver)
        if self._lookup.found is None:
            if self.sighting.kind is Kind.NOT_TRIED:
                self.sighting = Sighting(Kind.RESOLVING)
            return
        self._targets, self._lookup = list(self._lookup.found), None
        if not self._targets:
            self.retry(Sighting(Kind.UNRESOLVED))

    def _connect(self) -> None:
        family, kind, protocol, _, target = self._targets.pop(0)
        if self.sighting.kind in (Kind.NOT_TRIED, Kind.RESOLVING):
            self.sighting = Sighting(Kind.CALLED)
        try:
            self._connecting = socket.socket(family, kind, protocol)
            self._connecting.setblocking(False)
            code = self._connecting.connect_ex(target)
        except OSError as error:
            code = error.errno or errno.EINVAL
        self._deadline = self._clock() + CONNECT_SECONDS
        if code not in (0, errno.EINPROGRESS):
            self.retry(of_error(code))

    def _finish(self, connection: socket.socket) -> socket.socket | None:
        if not is_writable(connection):
            if self._clock() > self._deadline:
                self.retry(Sighting(Kind.TIMED_OUT))
            return None
        code = connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            self.retry(of_error(code))
            return None
        self._connecting = None
        return connection
