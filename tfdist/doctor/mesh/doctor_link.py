"""Link to the doctor of one worker: the connector that meets it, and the measurement of the line to it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tfdist.cluster.cluster_spec import Address
from tfdist.doctor.mesh.doctor_hello import DoctorHello
from tfdist.doctor.mesh.link_measurement import Clocks, Measurement, MeasurementPhase
from tfdist.net.connection_attempts import Resolver, look_up
from tfdist.net.connector import Connector
from tfdist.net.dial_outcome import DialStatus
from tfdist.net.handshake import Introduction
from tfdist.net.line_socket import LineSocket, Message

_EAGER_SECONDS = 1.0
"""For so long a load is sent as fast as the socket takes it; what takes longer goes at the pace of the ticks."""


class DoctorLink(Connector[DoctorHello]):
    """One worker's address, dialled until a doctor answers there, and the line to that doctor.

    Args:
        index: The worker.
        address: Its address.
        introduction: How this doctor introduces itself.
        clocks: The time.
        resolver: Looks the address up.

    Attributes:
        measurement: What is measured of the line; None before `measure`.
    """

    def __init__(
        self,
        index: int,
        address: Address,
        introduction: Introduction[DoctorHello],
        clocks: Clocks,
        resolver: Resolver = look_up,
    ) -> None:
        super().__init__(index, address, introduction, link=True, clock=clocks.steady, resolver=resolver)
        self.measurement: Measurement | None = None
        self._clocks = clocks
        self._eager_until = 0.0

    def waiting_for(self) -> tuple[list[LineSocket], list[Any]]:
        reading, writing = super().waiting_for()
        sending = self.measurement is not None and self.measurement.phase in (
            MeasurementPhase.SMALL,
            MeasurementPhase.LARGE,
        )
        if self.line is not None and sending and self._clocks.steady() < self._eager_until:
            writing.append(self.line)
        return reading, writing

    def receive(self) -> Sequence[Message]:
        """Steps, and returns what the doctor there told, apart from answers to the measurement.

        Raises:
            LineError: It is not understood.
        """
        self.step()
        if self.met is None or self.line is None:
            return ()
        self.line.flush()
        return [message for message in self.line.receive() if not self._is_measured(message)]

    def measure(self) -> None:
        """Starts to measure the line to a doctor that was met."""
        assert self.line is not None
        self._eager_until = self._clocks.steady() + _EAGER_SECONDS
        self.measurement = Measurement(self.line, self._clocks)

    def is_lost(self) -> bool:
        """Returns whether a doctor that was met is gone."""
        return self.met is not None and (self.line is None or self.line.is_closed())

    def lose(self, seen: DialStatus = DialStatus.LEFT) -> None:
        super().lose(seen)
        self.measurement = None

    def _is_measured(self, message: Message) -> bool:
        if self.measurement is None or not ("pong" in message or "loaded" in message):
            return False
        self.measurement.take(message)
        return True
