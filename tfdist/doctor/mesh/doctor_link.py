"""Link to the doctor of one worker: what both say of themselves, and the measurement of the line between them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

from tfdist.cluster.cluster_spec import Address
from tfdist.doctor.mesh.link_measurement import Clocks, Measurement, MeasurementPhase
from tfdist.net.connection_attempts import DialStatus, Resolver, look_up
from tfdist.net.connector import Connector
from tfdist.net.handshake import Introduction
from tfdist.net.hello import Hello, in_words
from tfdist.net.line_socket import MAX_HELLO_BYTES, LineError, LineSocket, Message

BANNER: Message = {"doctor": 2}
"""The first message of a doctor to whoever calls, with the version of the doctors' protocol."""

DOCTOR_SECONDS = 4.0
"""For an introduction: less than a launcher bears with a silent caller, so that it is known by its silence."""
_EAGER_SECONDS = 1.0
"""For so long a load is sent as fast as the socket takes it; what takes longer goes at the pace of the ticks."""


@dataclass(frozen=True)
class DoctorHello(Hello):
    """A doctor's hello.

    Attributes:
        token: Whether TFDIST_TOKEN is set there.
        taken: Worker -> who has its port, for those whose port is not free.
    """

    speaker: ClassVar[str] = "doctor"

    token: bool = False
    taken: Mapping[int, str] = field(default_factory=dict)

    @classmethod
    def from_message(cls, message: Message) -> Self:
        hello = super().from_message(message)
        told: Any = message["hello"]
        try:
            taken = {int(index): str(text) for index, text in told["taken"].items()}
            return replace(hello, token=bool(told["token"]), taken=taken)
        except (TypeError, KeyError, ValueError, AttributeError):
            raise LineError("a message that is not the hello of a tfdist doctor") from None


def doctor_introduction(hello: DoctorHello) -> Introduction[DoctorHello]:
    """Returns how doctors introduce themselves: a caller stays silent until it has heard the banner of a doctor."""
    return Introduction(hello, banner=BANNER, seconds=DOCTOR_SECONDS, line_bytes=MAX_HELLO_BYTES)


@dataclass(frozen=True)
class Disagreement:
    """The reason why two hosts would not form a cluster."""

    found: str
    advice: str


def leads_elsewhere(mine: DoctorHello, theirs: DoctorHello, reached: int) -> Disagreement | None:
    """Returns whether the address of a worker leads to somebody else; None when it leads to that worker.

    Args:
        reached: The worker whose address was dialled.
    """
    advice = "Check what its name resolves to on this host, and --index there."
    if mine.sender == theirs.sender and reached not in mine.local:
        return Disagreement("the address leads back to this machine", advice)
    if reached not in theirs.local and mine.cluster == theirs.cluster:
        held = ", ".join(map(str, theirs.local))
        return Disagreement(f"the address leads to {theirs.host}, which has worker(s) {held}", advice)
    return None


def disagreement(mine: DoctorHello, theirs: DoctorHello) -> Disagreement | None:
    """Returns what two hosts must have alike and have not; None when all is alike."""
    there = theirs.host
    if mine.cluster != theirs.cluster:
        return Disagreement(
            f"{there} was given another worker list: {in_words(theirs.cluster)}",
            f"Give the same list in the same order on every host. Here it is {in_words(mine.cluster)}",
        )
    differing = [f"{name} {here} here, {other} on {there}" for name, here, other in mine.version_differences(theirs)]
    if differing:
        return Disagreement(f"other versions: {'; '.join(differing)}", "Install the same versions on every host.")
    twice = sorted(set(mine.local) & set(theirs.local)) if mine.sender != theirs.sender else []
    if twice:
        listed = ", ".join(map(str, twice))
        return Disagreement(f"worker(s) {listed} are claimed here and by {there}", "Give each host its own --index.")
    if mine.token != theirs.token:
        where = "here, and not on" if mine.token else "not here, but on"
        return Disagreement(f"TFDIST_TOKEN is set {where} {there}", "Set the same TFDIST_TOKEN on every host, or none.")
    return None


class DoctorLink(Connector[DoctorHello]):
    """One worker's address, dialled until a doctor answers there, and the line to that doctor.

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
