"""Calls the doctor at one worker's address, introduces this one, and measures the line; never blocks."""

from __future__ import annotations

import contextlib
import enum
import socket
from collections.abc import Sequence
from typing import Any

from tfdist.cluster.cluster_spec import Address
from tfdist.doctor.mesh.address_sightings import ANSWER_SECONDS, Kind, Sighting, of_first_bytes
from tfdist.doctor.mesh.doctor_hello import BANNER, Greeting
from tfdist.doctor.mesh.link_measurement import Clocks, Measurement, Phase
from tfdist.doctor.mesh.reaching import Reach
from tfdist.net.connection_attempts import Resolver, look_up
from tfdist.net.line_socket import LineError, LineSocket, Message

MAX_LINE_BYTES = 1 << 18
_DRAINED_BYTES = 1 << 16
_EAGER_SECONDS = 1.0
"""For so long a load is sent as fast as the socket takes it; what takes longer goes at the pace of the ticks."""


class _Awaiting(enum.Enum):
    """BANNER -> GREETING -> NOTHING; a caller is silent until it has heard the banner."""

    BANNER = "banner"
    GREETING = "greeting"
    NOTHING = "nothing"


class Call:
    """One worker's address, called until a doctor answers there.

    Args:
        index: The worker.
        address: Its address.
        greeting: This doctor's.
        clocks: The time.
        resolver: Looks the address up.
    """

    def __init__(
        self, index: int, address: Address, greeting: Greeting, clocks: Clocks, resolver: Resolver = look_up
    ) -> None:
        self.index = index
        self.address = address
        self.sighting = Sighting(Kind.NOT_TRIED)
        self.theirs: Greeting | None = None
        self.line: LineSocket | None = None
        self.measurement: Measurement | None = None
        self.peer = ""
        self._greeting = greeting
        self._clocks = clocks
        self._reach = Reach(address, clocks.steady, resolver)
        self._awaiting = _Awaiting.BANNER
        self._deadline = 0.0

    def waiting_for(self) -> tuple[list[Any], list[Any]]:
        """What must become readable, and what writable, before `step` gets on."""
        if self.line is None:
            return [], self._reach.waiting_for()
        sending = self.measurement is not None and self.measurement.phase in (Phase.SMALL, Phase.LARGE)
        eager = sending and self._clocks.steady() < self._deadline
        return [self.line], [self.line] if eager else []

    def step(self) -> Sequence[Message]:
        """Gets on without waiting; returns what the doctor there told, apart from answers to the measurement."""
        if self.line is None:
            connection = self._reach.step()
            self.sighting = self._reach.sighting
            if connection is not None:
                self._open(connection)
            return ()
        self.line.flush()
        if self._awaiting is _Awaiting.BANNER and not self._begins_well(self.line):
            return ()
        try:
            messages = self.line.receive()
        except LineError:
            self.retry(Sighting(Kind.STRANGER))
            return ()
        told = [message for message in messages if not self._handled(message)]
        if self.line is not None and self._awaiting is not _Awaiting.NOTHING:
            self._check_patience(self.line)
        return told

    def measure(self) -> None:
        """Begins to measure the line of a doctor that was met."""
        assert self.line is not None
        self._deadline = self._clocks.steady() + _EAGER_SECONDS
        self.measurement = Measurement(self.line, self._clocks)

    def is_lost(self) -> bool:
        """Whether a doctor that was met is gone."""
        return self.theirs is not None and (self.line is None or self.line.is_closed())

    def retry(self, sighting: Sighting) -> None:
        """Hangs up because of what was seen, and calls again."""
        self.close()
        self._reach.retry(sighting)
        self.sighting = sighting
        self.theirs = self.measurement = None
        self._awaiting = _Awaiting.BANNER

    def close(self) -> None:
        """Hangs up."""
        self._reach.close()
        if self.line is not None:
            self.line.close()
            self.line = None

    def _open(self, connection: socket.socket) -> None:
        # A peer that has hung up already has no name any more; that it has is seen next.
        with contextlib.suppress(OSError):
            self.peer = str(connection.getpeername()[0])
        self.line = LineSocket(connection, MAX_LINE_BYTES)
        self._deadline = self._clocks.steady() + ANSWER_SECONDS

    def _begins_well(self, line: LineSocket) -> bool:
        """Looks at the first bytes without taking them: a server of another kind is known by them."""
        try:
            data = line.connection.recv(64, socket.MSG_PEEK)
        except BlockingIOError:
            self._check_patience(line)
            return False
        except OSError:
            data = b""
        if data[:1] == b"{":
            return True
        if data:
            # Taken after all: hanging up on unread bytes would reset the connection of whoever sent them.
            with contextlib.suppress(OSError):
                line.connection.recv(_DRAINED_BYTES)
        self.retry(of_first_bytes(data) if data else Sighting(Kind.CLOSED))
        return False

    def _handled(self, message: Message) -> bool:
        if self._awaiting is _Awaiting.BANNER:
            self._hear_banner(message)
        elif self._awaiting is _Awaiting.GREETING:
            self._hear_greeting(message)
        elif self.measurement is not None and ("pong" in message or "loaded" in message):
            self.measurement.take(message)
        else:
            return False
        return True

    def _hear_banner(self, message: Message) -> None:
        if message != BANNER or self.line is None:
            self.retry(Sighting(Kind.STRANGER))
            return
        self._awaiting = _Awaiting.GREETING
        self.line.send(self._greeting.to_message())

    def _hear_greeting(self, message: Message) -> None:
        try:
            self.theirs = Greeting.from_message(message)
        except LineError:
            self.retry(Sighting(Kind.STRANGER))
            return
        self._awaiting = _Awaiting.NOTHING
        self.sighting = Sighting(Kind.MET)

    def _check_patience(self, line: LineSocket) -> None:
        if line.is_closed():
            self.retry(Sighting(Kind.CLOSED))
        elif self._clocks.steady() > self._deadline:
            self.retry(Sighting(Kind.SILENT))
