"""Pair: the result for one connection, from the workers of one host to one worker, and how it is judged."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from typing import Any

from tfdist.cluster.interfaces import is_public
from tfdist.doctor.check_result import CLUSTER_CODE, LOCAL_CODE, CheckStatus, worst
from tfdist.doctor.mesh.dial_advice import advice_on, describe_outcome
from tfdist.doctor.mesh.doctor_hello import DoctorHello, disagreement, leads_elsewhere
from tfdist.doctor.mesh.link_measurement import LinkQuality, MeasurementPhase
from tfdist.net.dial_outcome import DialOutcome
from tfdist.net.line_socket import LineError, Message
from tfdist.rundir.json_record import is_finite

CLOCK_SECONDS = 2.0
"""Clocks that differ by more deserve a warning: times in logs and files no longer tell what came first."""

LEFT_ALONE = "It was left alone. If it is a job of yours, check again when that has ended."

Finding = tuple[CheckStatus, str, str]
"""Status, what was found, what to do."""


@dataclass(frozen=True)
class Pair:
    """The connection from the workers of one host to one worker, as that host saw it.

    Attributes:
        sources: The workers of the host that dialled; one connection stands for all of them.
        target: The worker that was dialled.
        status: The verdict.
        found: What was found.
        advice: What to do; empty where nothing need be done.
        code: The command's exit code if this fails.
        address: The IP address that answered; empty if none did.
        round_trip: Seconds; None if it was not measured, like those that follow.
        offset: Seconds that the other clock is ahead, up to half of the round trip.
        bandwidth: Bytes a second towards the other.
    """

    sources: tuple[int, ...]
    target: int
    status: CheckStatus
    found: str
    advice: str = ""
    code: int = CLUSTER_CODE
    address: str = ""
    round_trip: float | None = None
    offset: float | None = None
    bandwidth: float | None = None

    @property
    def key(self) -> tuple[int, int]:
        """The key that identifies it among all pairs."""
        return self.sources[0], self.target

    def to_json(self) -> dict[str, Any]:
        """As a JSON object."""
        return {**asdict(self), "sources": list(self.sources), "status": self.status.value}

    @classmethod
    def from_message(cls, message: Message) -> Pair:
        """The pair that another doctor told of.

        Raises:
            LineError: It is none.
        """
        told: Any = message.get("pair")
        try:
            values = {field.name: told[field.name] for field in fields(cls)}
            sources = tuple(int(index) for index in values.pop("sources"))
            status = CheckStatus(values.pop("status"))
            numbers = [values[name] for name in ("round_trip", "offset", "bandwidth")]
            texts = [values[name] for name in ("found", "advice", "address")]
            target, code = int(values.pop("target")), int(values.pop("code"))
        except (TypeError, KeyError, ValueError, OverflowError):
            raise LineError("a message that is no pair") from None
        if not sources or code not in (LOCAL_CODE, CLUSTER_CODE) or not all(isinstance(text, str) for text in texts):
            raise LineError("a pair with impossible values")
        if not all(number is None or is_finite(number) for number in numbers):
            raise LineError("a pair whose numbers are not numbers")
        return cls(sources, target, status, code=code, **values)


def unreached(mine: DoctorHello, target: int, seen: DialOutcome) -> Pair:
    """The pair for a worker whose doctor was not met."""
    return Pair(mine.local, target, CheckStatus.FAIL, describe_outcome(seen), advice_on(seen))


def occupied(mine: DoctorHello, target: int, owner: str) -> Pair:
    """The pair for a worker whose port its own host could not take, as its doctor says."""
    return Pair(mine.local, target, CheckStatus.FAIL, f"its port is not free there: {owner}", LEFT_ALONE, LOCAL_CODE)


def judge(
    mine: DoctorHello,
    theirs: DoctorHello,
    target: int,
    address: str,
    measured: LinkQuality | None,
    stalled: MeasurementPhase | None = None,
) -> Pair:
    """The pair for a worker whose doctor was met.

    Args:
        mine: This doctor's hello.
        theirs: The other's.
        target: The worker that was dialled.
        address: The IP address that answered.
        measured: What was measured of the line; None if nothing was.
        stalled: The phase of the measurement in which the line fell silent; None if it did not.
    """
    findings = list(_findings(mine, theirs, target, address, measured, stalled))
    found = "; ".join(text for _, text, _ in findings)
    if not findings:
        found = "this machine" if mine.sender == theirs.sender else f"{theirs.host} answers and agrees"
    numbers = (measured.round_trip, measured.offset, measured.bandwidth) if measured else (None, None, None)
    advice = " ".join(text for _, _, text in findings)
    status = worst(status for status, _, _ in findings)
    return Pair(mine.local, target, status, found, advice, CLUSTER_CODE, address, *numbers)


def _findings(
    mine: DoctorHello,
    theirs: DoctorHello,
    target: int,
    address: str,
    measured: LinkQuality | None,
    stalled: MeasurementPhase | None,
) -> Iterator[Finding]:
    problem = leads_elsewhere(mine, theirs, target) or disagreement(mine, theirs)
    if problem is not None:
        yield CheckStatus.FAIL, problem.found, problem.advice
    if stalled is MeasurementPhase.PINGS:
        yield (
            CheckStatus.FAIL,
            "answers once, and then the line falls silent",
            "Check the link and the load of both hosts.",
        )
    elif stalled is not None:
        advice = "Check the MTU of every interface in between (ping -M do -s 1472 ADDRESS), and firewalls."
        yield (
            CheckStatus.FAIL,
            f"the line falls silent under the {stalled.value}: small messages pass, large do not",
            advice,
        )
    if measured is not None and abs(measured.offset) - measured.round_trip / 2 > CLOCK_SECONDS:
        ahead = "ahead of" if measured.offset > 0 else "behind"
        text = f"the clock of {theirs.host} is {abs(measured.offset):.1f} s {ahead} this one's"
        yield CheckStatus.WARN, text, "Set both with NTP (timedatectl set-ntp true): times in logs do not fit together."
    if mine.sender != theirs.sender and is_public(address):
        advice = "Let a firewall admit the cluster's own addresses alone, or use private addresses."
        yield CheckStatus.WARN, f"{address} is a public address, and TensorFlow's port asks for no password", advice
