"""Mesh of doctors: each meets all others, measures the line to each, and gathers what all of them found.

Every doctor takes its workers' ports, dials every worker's address and answers on its own ports, as launchers of a
small job do when they form a cluster. As soon as it knows what a connection is like, it tells all others that it has a
line to; it leaves when it knows all its own connections and has heard that the others do too, or when its time is up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from tfdist.cluster.cluster_spec import Cluster
from tfdist.cluster.environment_variables import run_variables
from tfdist.cluster.membership import Membership
from tfdist.doctor.check_result import CLUSTER_CODE, Check, fail, ok
from tfdist.doctor.mesh.doctor_link import DoctorHello, DoctorLink, doctor_introduction, leads_elsewhere
from tfdist.doctor.mesh.link_measurement import Clocks, MeasurementPhase, answer
from tfdist.doctor.mesh.pair import LEFT_ALONE, KnownPairs, Pair, describe_outcome, judge, occupied, unreached
from tfdist.errors import PortTakenError
from tfdist.net.bounded_wait import wait_for
from tfdist.net.connection_attempts import DialStatus, Resolver, look_up
from tfdist.net.hello import in_words
from tfdist.net.hello_listener import HelloListener
from tfdist.net.line_socket import LineError, LineSocket
from tfdist.net.port_reservation import PortReservation
from tfdist.net.shared_token import VARIABLE

SETTLE_SECONDS = 5.0
"""Seconds that a host may stay out of reach after its own doctor has called here."""

_FOREIGN = (DialStatus.GRPC, DialStatus.SILENT, DialStatus.STRANGER)
_TICK_SECONDS = 0.05
_QUIET_SECONDS = 1.0
_NAMED = 4


class ConnectionVerdicts:
    """Judges links, each once."""

    def __init__(self, hello: DoctorHello, clocks: Clocks, known: KnownPairs) -> None:
        self._hello = hello
        self._clocks = clocks
        self._known = known
        self._cannot_listen = set(hello.local) <= set(hello.taken)
        self._came: dict[int, tuple[float, DoctorHello]] = {}

    def notice(self, theirs: DoctorHello) -> None:
        """A doctor with the same worker list is there, whoever called whom."""
        for index in theirs.local:
            self._came.setdefault(index, (self._clocks.steady(), theirs))

    def settle(self, link: DoctorLink) -> None:
        """Keeps the verdict on a link, as soon as it is known."""
        if self._known.is_settled(link.index):
            return
        since, theirs = self._came.get(link.index, (None, None))
        if link.met is not None:
            self._settle_met(link, link.met)
        elif theirs is not None and link.index in theirs.taken:
            self._keep(link, occupied(self._hello, link.index, theirs.taken[link.index]))
        elif since is not None and self._clocks.steady() > since + SETTLE_SECONDS:
            self._keep(link, unreached(self._hello, link.index, link.seen))
        elif self._cannot_listen and link.seen.status in _FOREIGN:
            # Its doctor, if there is one, can neither be called there nor call here.
            self._keep(link, unreached(self._hello, link.index, link.seen))
            self._known.finished.add(link.index)

    def settle_now(self, link: DoctorLink) -> None:
        """The time is up: keeps the verdict on what is known of a link so far."""
        if self._known.is_settled(link.index):
            return
        if link.met is None:
            self._keep(link, unreached(self._hello, link.index, link.seen))
        else:
            result = link.measurement.result() if link.measurement else None
            self._keep(link, judge(self._hello, link.met, link.index, link.peer, result))

    def _settle_met(self, link: DoctorLink, theirs: DoctorHello) -> None:
        measurement = link.measurement
        if measurement is None:
            if theirs.sender == self._hello.sender or leads_elsewhere(self._hello, theirs, link.index):
                self._keep(link, judge(self._hello, theirs, link.index, link.peer, None))
        elif measurement.phase is MeasurementPhase.DONE or measurement.stalled():
            stalled = None if measurement.phase is MeasurementPhase.DONE else measurement.phase
            self._keep(link, judge(self._hello, theirs, link.index, link.peer, measurement.result(), stalled))

    def _keep(self, link: DoctorLink, pair: Pair) -> None:
        self._known.pairs[pair.key] = pair
        if link.met is None:
            link.close()


class Mesh:
    """One doctor's part of the mesh.

    Args:
        hello: This doctor's: with the workers of this machine, and those whose ports are taken.
    """

    def __init__(
        self,
        cluster: Cluster,
        hello: DoctorHello,
        clocks: Clocks,
        seconds: float,
        tell: Callable[[str], None],
        resolver: Resolver = look_up,
    ) -> None:
        self._cluster = cluster
        self._hello = hello
        self._clocks = clocks
        self._seconds = seconds
        self._deadline = clocks.steady() + seconds
        self._tell = tell
        self._said = ""
        introduction = doctor_introduction(hello)
        ports = [cluster.workers[index].port for index in hello.local if index not in hello.taken]
        self._listener = HelloListener(ports, introduction, clocks.steady)
        self._callers: dict[LineSocket, DoctorHello] = {}
        self._links = {
            index: DoctorLink(index, cluster.workers[index], introduction, clocks, resolver)
            for index in self._to_dial()
        }
        self._known = KnownPairs(hello, len(cluster))
        self._verdicts = ConnectionVerdicts(hello, clocks, self._known)
        self._strange: dict[int, float] = {}

    @property
    def other_lists(self) -> Mapping[str, str]:
        """Host -> worker list, of doctors that were given another."""
        return self._known.other_lists

    def run(self) -> list[Pair]:
        """Meets the other doctors; returns what is known of every connection, ordered.

        Raises:
            PortTakenError: This doctor cannot listen on a port that it holds.
        """
        try:
            self._listener.open()
            while not self._is_over():
                self._step()
                self._wait()
            for link in self._links.values():
                self._verdicts.settle_now(link)
            self._share()
        finally:
            self._listener.close()
            for line in self._callers:
                line.close()
            for link in self._links.values():
                link.close()
        return [pair for _, pair in sorted(self._known.pairs.items())]

    def _to_dial(self) -> Iterator[int]:
        """Every other worker, in a ring from this one on, so that not all measure their line to the same at once."""
        local, count = self._hello.local, len(self._cluster)
        for step in range(1, count + 1):
            index = (local[0] + step) % count
            if index not in local or (len(local) > 1 and index not in self._hello.taken):
                yield index

    def _step(self) -> None:
        self._step_callers()
        for link in self._links.values():
            # A link that is settled is stepped only while it has a line, over which more may be told.
            if link.line is not None or not self._known.is_settled(link.index):
                self._step_link(link)
        self._measure()
        for link in self._links.values():
            self._verdicts.settle(link)
        self._share()
        self._say()

    def _step_callers(self) -> None:
        arrived = self._listener.step()
        self._callers.update({caller.line: caller.hello for caller in arrived if caller.line is not None})
        for line, theirs in list(self._callers.items()):
            self._hear_caller(line, theirs)
            if line.is_closed():
                del self._callers[line]
                self._known.forget(theirs)
            else:
                self._notice(theirs)

    def _hear_caller(self, line: LineSocket, theirs: DoctorHello) -> None:
        line.flush()
        try:
            for message in line.receive():
                answer(line, message, self._clocks)
                self._known.hear(theirs, message)
        except LineError:
            line.close()

    def _step_link(self, link: DoctorLink) -> None:
        before = link.met
        try:
            for message in link.receive():
                self._known.hear(link.met, message)
        except LineError:
            link.lose(DialStatus.STRANGER)
        if link.is_lost():
            self._known.forget(before)
            if self._known.is_settled(link.index):
                link.close()
            else:
                link.lose()
        self._notice(link.met)
        if link.met is not None and not self._known.is_ours(link.met):
            self._strange.setdefault(link.index, self._clocks.steady())

    def _wait(self) -> None:
        readable: list[Any] = [*self._listener.sources(), *self._callers]
        writable: list[Any] = []
        for link in self._links.values():
            reading, writing = link.waiting_for()
            readable += reading
            writable += writing
        wait_for(readable, _TICK_SECONDS, writable)

    def _notice(self, theirs: DoctorHello | None) -> None:
        if theirs is None:
            return
        if self._known.is_ours(theirs):
            self._verdicts.notice(theirs)
        else:
            self._known.other_lists[theirs.host] = theirs.cluster

    def _measure(self) -> None:
        """Measures one line at a time, so that they do not slow one another."""
        unsettled = self._unsettled()
        if any(
            link.measurement is not None and link.measurement.phase is not MeasurementPhase.DONE for link in unsettled
        ):
            return
        for link in unsettled:
            theirs = link.met
            if theirs is None or link.measurement is not None or link.is_lost():
                continue
            if theirs.sender != self._hello.sender and not leads_elsewhere(self._hello, theirs, link.index):
                link.measure()
                return

    def _unsettled(self) -> list[DoctorLink]:
        return [link for link in self._links.values() if not self._known.is_settled(link.index)]

    def _share(self) -> None:
        self._known.share(self._lines(), complete=not self._unsettled())

    def _lines(self) -> Mapping[str, LineSocket]:
        """One line to each other doctor; preferably one that it opened, on which no load of ours is on its way."""
        ends = [(link.met, link.line) for link in self._links.values()]
        ends += [(theirs, line) for line, theirs in self._callers.items()]
        lines = {
            theirs.sender: line
            for theirs, line in ends
            if theirs is not None and line is not None and not line.is_closed()
        }
        lines.pop(self._hello.sender, None)
        return lines

    def _is_over(self) -> bool:
        now = self._clocks.steady()
        # A doctor with another list never finishes for this one; it only needs some time to see this one.
        strange = {index for index, since in self._strange.items() if now > since + SETTLE_SECONDS}
        others = set(range(len(self._cluster))) - set(self._hello.local)
        return now > self._deadline or (not self._unsettled() and others <= self._known.finished | strange)

    def _say(self) -> None:
        missing = [link for link in self._unsettled() if link.met is None]
        named = "; ".join(
            f"worker {link.index} ({link.address}): {describe_outcome(link.seen)}" for link in missing[:_NAMED]
        )
        more = f"; and {len(missing) - _NAMED} more" if len(missing) > _NAMED else ""
        left = self._deadline - self._clocks.steady()
        if missing and named + more != self._said and left < self._seconds - _QUIET_SECONDS:
            self._said = named + more
            self._tell(f"waiting up to {max(left, 0):.0f} s for {self._said}")


@dataclass(frozen=True)
class Connections:
    """The results.

    Attributes:
        checks: Of this machine's ports, and of the worker lists.
        pairs: Every known connection: this machine's, and those that other doctors told of.
    """

    checks: tuple[Check, ...] = ()
    pairs: tuple[Pair, ...] = ()


def check_connections(
    membership: Membership, seconds: float, clocks: Clocks, tell: Callable[[str], None], resolver: Resolver = look_up
) -> Connections:
    """Takes those of this machine's ports that are free, and meets the doctors of the other hosts.

    Args:
        membership: The cluster, and this machine's workers.
    """
    cluster = membership.cluster
    if cluster is None:
        return Connections((ok("connections", "one worker has none"),))
    with PortReservation() as reservation:
        taken: dict[int, str] = {}
        for index in membership.local:
            try:
                reservation.take(cluster.workers[index].port)
            except PortTakenError as error:
                taken[index] = str(error)
        ports = [_port(index, cluster.workers[index].port, taken.get(index)) for index in membership.local]
        hello = replace(DoctorHello.own(cluster, membership.local), token=VARIABLE in run_variables(), taken=taken)
        mesh = Mesh(cluster, hello, clocks, seconds, tell, resolver)
        pairs = mesh.run()
    lists = [_other_list(host, theirs, hello.cluster) for host, theirs in mesh.other_lists.items()]
    return Connections((*ports, *lists), tuple(pairs))


def _port(index: int, port: int, taken: str | None) -> Check:
    name = f"port {port}"
    if taken is None:
        return ok(name, f"free for worker {index}; held and answered on during the check")
    return fail(name, taken, LEFT_ALONE)


def _other_list(host: str, theirs: str, mine: str) -> Check:
    found = f"{host} was given {in_words(theirs)}\nand this one {in_words(mine)}"
    return fail("worker list", found, "Give the same list in the same order on every host.", CLUSTER_CODE)
