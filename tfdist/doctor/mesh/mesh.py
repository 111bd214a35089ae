"""Meets the doctors of the other hosts, measures the line to each, and gathers what all of them found.

Every doctor calls every worker's address and answers on its own workers' ports. As soon as it knows how a connection
is, it tells all that it has a line with; it leaves when it knows of all its own and has heard that the others do too,
or when its time is up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tfdist.cluster.cluster_spec import Cluster
from tfdist.doctor.mesh.address_sightings import Kind, Sighting
from tfdist.doctor.mesh.answering import Answering, Guest
from tfdist.doctor.mesh.connection_verdict import SETTLE_SECONDS, Settling
from tfdist.doctor.mesh.doctor_hello import Greeting, leads_elsewhere
from tfdist.doctor.mesh.findings import Findings
from tfdist.doctor.mesh.link_measurement import Clocks, Phase
from tfdist.doctor.mesh.outgoing_link import Call
from tfdist.doctor.mesh.pair import Pair
from tfdist.net.bounded_wait import wait_for
from tfdist.net.connection_attempts import Resolver, look_up
from tfdist.net.line_socket import LineError, LineSocket, Message

_TICK_SECONDS = 0.05
_QUIET_SECONDS = 1.0
_NAMED = 4


class Meeting:
    """What one doctor does with the others.

    Args:
        cluster: All workers.
        greeting: This doctor's: with the workers of this machine, and those whose ports are taken.
        clocks: The time.
        seconds: How long it may last.
        tell: Is told how far it is, for whoever waits.
        resolver: Looks addresses up.
    """

    def __init__(
        self,
        cluster: Cluster,
        greeting: Greeting,
        clocks: Clocks,
        seconds: float,
        tell: Callable[[str], None],
        resolver: Resolver = look_up,
    ) -> None:
        self._cluster = cluster
        self._greeting = greeting
        self._clocks = clocks
        self._seconds = seconds
        self._deadline = clocks.steady() + seconds
        self._tell = tell
        self._said = ""
        ports = [cluster.workers[index].port for index in greeting.local if index not in greeting.taken]
        self._answering = Answering(ports, greeting, clocks)
        self._calls = {
            index: Call(index, cluster.workers[index], greeting, clocks, resolver) for index in self._to_call()
        }
        self._findings = Findings(greeting, len(cluster))
        self._settling = Settling(greeting, clocks, self._findings)
        self._strange: dict[int, float] = {}

    @property
    def other_lists(self) -> Mapping[str, str]:
        """Host -> worker list, of doctors that were given another."""
        return self._findings.other_lists

    def run(self) -> list[Pair]:
        """Meets them; returns what is known of every connection, ordered.

        Raises:
            PortTakenError: This doctor cannot listen on a port that it holds.
        """
        try:
            self._answering.open()
            while not self._is_over():
                self._step()
                self._wait()
            for call in self._calls.values():
                self._settling.settle_now(call)
            self._share()
        finally:
            self._answering.close()
            for call in self._calls.values():
                call.close()
        return [pair for _, pair in sorted(self._findings.pairs.items())]

    def _to_call(self) -> Iterator[int]:
        """Every other worker, in a ring from this one on, so that not all measure their line to the same at once."""
        local, count = self._greeting.local, len(self._cluster)
        for step in range(1, count + 1):
            index = (local[0] + step) % count
            if index not in local or (len(local) > 1 and index not in self._greeting.taken):
                yield index

    def _step(self) -> None:
        for guest in self._answering.step(self._hear_guest):
            self._findings.forget(guest.greeting)
        for guest in self._answering.guests:
            self._notice(guest.greeting)
        for call in self._calls.values():
            # Of what is settled only a line that still tells something goes on.
            if call.line is not None or not self._findings.is_settled(call.index):
                self._step_call(call)
        self._measure()
        for call in self._calls.values():
            self._settling.settle(call)
        self._share()
        self._say()

    def _step_call(self, call: Call) -> None:
        before = call.theirs
        try:
            for message in call.step():
                self._findings.hear(call.theirs, message)
        except LineError:
            call.retry(Sighting(Kind.STRANGER))
        if call.is_lost():
            self._findings.forget(before)
            if self._findings.is_settled(call.index):
                call.close()
            else:
                call.retry(Sighting(Kind.LEFT))
        self._notice(call.theirs)
        if call.theirs is not None and not self._findings.is_ours(call.theirs):
            self._strange.setdefault(call.index, self._clocks.steady())

    def _wait(self) -> None:
        readable: list[Any] = list(self._answering.sources())
        writable: list[Any] = []
        for call in self._calls.values():
            reading, writing = call.waiting_for()
            readable += reading
            writable += writing
        wait_for(readable, _TICK_SECONDS, writable)

    def _hear_guest(self, guest: Guest, message: Message) -> None:
        self._findings.hear(guest.greeting, message)

    def _notice(self, theirs: Greeting | None) -> None:
        if theirs is None:
            return
        if self._findings.is_ours(theirs):
            self._settling.notice(theirs)
        else:
            self._findings.other_lists[theirs.host] = theirs.cluster

    def _measure(self) -> None:
        """One line at a time, so that they do not slow one another."""
        unsettled = self._unsettled()
        if any(call.measurement is not None and call.measurement.phase is not Phase.DONE for call in unsettled):
            return
        for call in unsettled:
            theirs = call.theirs
            if theirs is None or call.measurement is not None or call.is_lost():
                continue
            if theirs.doctor != self._greeting.doctor and not leads_elsewhere(self._greeting, theirs, call.index):
                call.measure()
                return

    def _unsettled(self) -> list[Call]:
        return [call for call in self._calls.values() if not self._findings.is_settled(call.index)]

    def _share(self) -> None:
        self._findings.share(self._lines(), complete=not self._unsettled())

    def _lines(self) -> Mapping[str, LineSocket]:
        """One line to each other doctor; rather one that it called on, where no load of ours is on its way."""
        lines: dict[str, LineSocket] = {}
        ends = [(call.theirs, call.line) for call in self._calls.values()]
        ends += [(guest.greeting, guest.line) for guest in self._answering.guests]
        for theirs, line in ends:
            if theirs is not None and line is not None and not line.is_closed():
                lines[theirs.doctor] = line
        lines.pop(self._greeting.doctor, None)
        return lines

    def _is_over(self) -> bool:
        now = self._clocks.steady()
        # With a doctor of another list there is nothing to be finished together; it has a while to see this one.
        strange = {index for index, since in self._strange.items() if now > since + SETTLE_SECONDS}
        others = set(range(len(self._cluster))) - set(self._greeting.local)
        return now > self._deadline or (not self._unsettled() and others <= self._findings.finished | strange)

    def _say(self) -> None:
        missing = [call for call in self._unsettled() if call.theirs is None]
        named = "; ".join(f"worker {call.index} ({call.address}): {call.sighting.found}" for call in missing[:_NAMED])
        more = f"; and {len(missing) - _NAMED} more" if len(missing) > _NAMED else ""
        left = self._deadline - self._clocks.steady()
        if missing and named + more != self._said and left < self._seconds - _QUIET_SECONDS:
            self._said = named + more
            self._tell(f"waiting up to {max(left, 0):.0f} s for {self._said}")
