"""Answers the doctors that call this one's workers; strangers cost it nothing and learn nothing."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from tfdist.doctor.mesh.address_sightings import ANSWER_SECONDS
from tfdist.doctor.mesh.doctor_hello import BANNER, Greeting
from tfdist.doctor.mesh.link_measurement import Clocks, answer
from tfdist.doctor.mesh.outgoing_link import MAX_LINE_BYTES
from tfdist.errors import PortTakenError
from tfdist.net.line_socket import LineError, LineSocket, Message
from tfdist.net.port_lease import bind_reusable

MAX_STRANGERS = 256
_BACKLOG = 128


@dataclass(eq=False)
class Guest:
    """Somebody who called.

    Attributes:
        line: The line.
        deadline: By when it must have introduced itself, on the steady clock.
        greeting: Who it is; None until it has said so.
    """

    line: LineSocket
    deadline: float
    greeting: Greeting | None = None


@dataclass
class Answering:
    """Listens on this doctor's ports.

    Args:
        ports: Those of the workers here whose ports this doctor holds.
        greeting: This doctor's.
        clocks: The time.
    """

    ports: Sequence[int]
    greeting: Greeting
    clocks: Clocks
    guests: list[Guest] = field(default_factory=list)
    _listeners: list[socket.socket] = field(default_factory=list)

    def open(self) -> None:
        """Starts to listen.

        Raises:
            PortTakenError: It cannot.
        """
        try:
            for port in self.ports:
                listener = bind_reusable(port)
                self._listeners.append(listener)
                listener.setblocking(False)
                listener.listen(_BACKLOG)
        except OSError as error:
            raise PortTakenError(
                f"This doctor cannot listen on its workers' ports {sorted(self.ports)}: {error}. "
                "Choose other ports in --workers (the same list on every host)."
            ) from error

    def sources(self) -> list[Any]:
        """What becomes readable when there is something to do."""
        return [*self._listeners, *(guest.line for guest in self.guests)]

    def step(self, hear: Callable[[Guest, Message], None]) -> list[Guest]:
        """Takes calls and what is said, without waiting.

        Args:
            hear: Gets what doctors tell, apart from measurements.

        Returns:
            Guests that had introduced themselves and have left.
        """
        self._accept()
        for guest in self.guests:
            self._listen(guest, hear)
        left = [guest for guest in self.guests if guest.line.is_closed()]
        self.guests = [guest for guest in self.guests if not guest.line.is_closed()]
        return [guest for guest in left if guest.greeting is not None]

    def close(self) -> None:
        """Stops listening and hangs up on everybody."""
        for listener in self._listeners:
            listener.close()
        for guest in self.guests:
            guest.line.close()
        self._listeners.clear()
        self.guests.clear()

    def _accept(self) -> None:
        for listener in self._listeners:
            # BlockingIOError: nobody calls; other errors belong to a caller that has left already.
            with contextlib.suppress(OSError):
                while sum(guest.greeting is None for guest in self.guests) < MAX_STRANGERS:
                    connection, _ = listener.accept()
                    line = LineSocket(connection, MAX_LINE_BYTES)
                    self.guests.append(Guest(line, self.clocks.steady() + ANSWER_SECONDS))
                    line.send(BANNER)

    def _listen(self, guest: Guest, hear: Callable[[Guest, Message], None]) -> None:
        guest.line.flush()
        try:
            for message in guest.line.receive():
                if guest.greeting is None:
                    guest.greeting = Greeting.from_message(message)
                    guest.line.send(self.greeting.to_message())
                else:
                    answer(guest.line, message, self.clocks)
                    hear(guest, message)
        except LineError:
            guest.line.close()
        if guest.greeting is None and self.clocks.steady() > guest.deadline:
            guest.line.close()
