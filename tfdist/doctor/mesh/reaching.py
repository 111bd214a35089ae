"""Looks a worker's address up and connects to it, again and again until it answers; never blocks."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any

from tfdist.cluster.cluster_spec import Address
from tfdist.doctor.mesh.address_sightings import CONNECT_SECONDS, Kind, Sighting, of_error
from tfdist.net.connection_attempts import Lookup, Resolver, begin_connecting, finish_connecting, look_up

_RETRY_SECONDS = 0.2


class Reach:
    """Attempts to connect to one address.

    Args:
        address: Whose.
        clock: Seconds, never going back.
        resolver: Looks the address up.
    """

    def __init__(self, address: Address, clock: Callable[[], float], resolver: Resolver = look_up) -> None:
        self.sighting = Sighting(Kind.NOT_TRIED)
        self._clock = clock
        self._lookup = Lookup(address, clock, resolver)
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
        targets = self._lookup.targets()
        if targets is None:
            if self.sighting.kind is Kind.NOT_TRIED:
                self.sighting = Sighting(Kind.RESOLVING)
            return
        self._targets = targets
        if not targets:
            self.retry(Sighting(Kind.UNRESOLVED))

    def _connect(self) -> None:
        if self.sighting.kind in (Kind.NOT_TRIED, Kind.RESOLVING):
            self.sighting = Sighting(Kind.CALLED)
        self._connecting, code = begin_connecting(self._targets.pop(0))
        self._deadline = self._clock() + CONNECT_SECONDS
        if code:
            self.retry(of_error(code))

    def _finish(self, connection: socket.socket) -> socket.socket | None:
        code = finish_connecting(connection)
        if code is None:
            if self._clock() > self._deadline:
                self.retry(Sighting(Kind.TIMED_OUT))
            return None
        if code:
            self.retry(of_error(code))
            return None
        self._connecting = None
        return connection
