"""Pair: the result for one connection, from the workers of one host to one worker, how it is judged, and what to do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from tfdist.cluster.interfaces import is_public
from tfdist.doctor.check_result import CLUSTER_CODE, LOCAL_CODE, CheckStatus, worst
from tfdist.doctor.mesh.doctor_link import DOCTOR_SECONDS, DoctorHello, disagreement, leads_elsewhere
from tfdist.doctor.mesh.link_measurement import LinkQuality, MeasurementPhase
from tfdist.net.connection_attempts import DialOutcome, DialStatus
from tfdist.net.connector import CONNECT_SECONDS
from tfdist.net.line_socket import LineError, LineSocket, Message
from tfdist.rundir.json_record import is_finite

_MORE_TIME = "Give it more time with --timeout."
_SAME_COMMAND = "Start the same `tfdist doctor --workers ...` on that host at the same time; if it runs there"
_OTHER_OWNER = "See on that host who has the port (ss -ltnp), or choose another in --workers. It was left alone."

_WORDS = {
    DialStatus.NOT_TRIED: ("has not been tried", _MORE_TIME),
    DialStatus.RESOLVING: (
        "its name is still being looked up on this host",
        "Repair this host's DNS (/etc/resolv.conf), or put the name into /etc/hosts, or use addresses in --workers.",
    ),
    DialStatus.CONNECTING: ("has not answered yet", _MORE_TIME),
    DialStatus.UNRESOLVED: (
        "its name does not resolve on this host",
        "Put the name into DNS or this host's /etc/hosts, or use addresses in --workers.",
    ),
    DialStatus.UNREACHABLE: (
        "cannot be reached",
        "Check this host's routes and interfaces (ip route get ADDRESS).",
    ),
    DialStatus.TIMED_OUT: (
        f"does not answer within {CONNECT_SECONDS:g} s",
        "Check that the host is up and that no firewall drops TCP to this port from this host.",
    ),
    DialStatus.REFUSED: (
        "refuses the connection: no doctor listens there",
        f"{_SAME_COMMAND}, a firewall rejects the port.",
    ),
    DialStatus.CLOSED: (
        "takes the connection and closes it without a word",
        f"{_SAME_COMMAND}, something between the hosts (a proxy, a container's port mapping) takes the connection in "
        "its place.",
    ),
    DialStatus.SILENT: (
        f"takes the connection, but says nothing for {DOCTOR_SECONDS:g} s: something else listens there, "
        "such as a `tfdist train` that waits for its cluster",
        _OTHER_OWNER,
    ),
    DialStatus.STRANGER: (
        "takes the connection, but is no tfdist doctor of this version: something else listens there",
        _OTHER_OWNER,
    ),
    DialStatus.GRPC: (
        "a gRPC server answers, such as TensorFlow's: a job seems to run there",
        "Wait for the job to end, or choose another port in --workers. The job was left alone.",
    ),
    DialStatus.MISMATCHED: ("has another TFDIST_TOKEN", "Set the same TFDIST_TOKEN on every host, or none."),
    DialStatus.LEFT: ("was there, and has left", "Start the doctors of all hosts again."),
    DialStatus.MET: ("answers", ""),
}
CLOCK_SECONDS = 2.0
"""Clocks that differ by more deserve a warning: times in logs and files no longer tell what came first."""
LEFT_ALONE = "It was left alone. If it is a job of yours, check again when that has ended."
Finding = tuple[CheckStatus, str, str]
"""Status, what was found, what to do."""
_DONE: Message = {"done": True}


def describe_outcome(seen: DialOutcome) -> str:
    """Returns what was seen at an address."""
    words = _WORDS[seen.status][0]
    return f"{words}: {seen.detail}" if seen.detail else words


def advice_on(seen: DialOutcome) -> str:
    """Returns what to do about it."""
    return _WORDS[seen.status][1]


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


class KnownPairs:
    """The knowledge of one doctor, which tells each other doctor each of its own pairs once.

    Attributes:
        pairs: The connections that are known of.
        finished: The workers whose doctors know all of theirs.
        other_lists: Host -> worker list, of doctors that were given another.
    """

    def __init__(self, hello: DoctorHello, workers: int) -> None:
        self._hello = hello
        self._workers = workers
        self.pairs: dict[tuple[int, int], Pair] = {}
        self.finished: set[int] = set()
        self.other_lists: dict[str, str] = {}
        self._told: dict[str, set[tuple[int, int] | str]] = {}

    def is_settled(self, index: int) -> bool:
        """Returns whether this doctor's connection with a worker is known."""
        return (self._hello.local[0], index) in self.pairs

    def is_ours(self, theirs: DoctorHello) -> bool:
        """Returns whether another doctor was given the same worker list."""
        return theirs.cluster == self._hello.cluster

    def hear(self, theirs: DoctorHello | None, message: Message) -> None:
        """Takes in what another doctor tells.

        Raises:
            LineError: It is nothing that a doctor tells.
        """
        if theirs is None or not self.is_ours(theirs):
            return
        if "pair" in message:
            pair = Pair.from_message(message)
            if set(pair.sources) <= set(theirs.local) and 0 <= pair.target < self._workers:
                self.pairs.setdefault(pair.key, pair)
        elif message == _DONE:
            self.finished.update(theirs.local)

    def forget(self, theirs: DoctorHello | None) -> None:
        """A doctor has left: one that comes back is told everything."""
        if theirs is not None:
            self._told.pop(theirs.sender, None)

    def share(self, lines: Mapping[str, LineSocket], *, complete: bool) -> None:
        """Tells every doctor on a line what it does not know yet of this one's connections."""
        own = {pair.key: pair for pair in self.pairs.values() if pair.sources == self._hello.local}
        for doctor, line in lines.items():
            told = self._told.setdefault(doctor, set())
            for key in own.keys() - told:
                line.send({"pair": own[key].to_json()})
                told.add(key)
            if complete and "done" not in told:
                line.send(_DONE)
                told.add("done")
