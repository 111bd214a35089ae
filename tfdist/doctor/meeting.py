"""Meets the doctors of the other hosts, measures the line to each, and gathers what all of them found.

Every doctor calls every worker's address and answers on its own workers' ports. As soon as it knows how a connection
is, it tells all that it has a line with; it leaves when it knows of all its own and has heard that the others do too,
or when its time is up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tfdist.cluster.spec import Cluster
from tfdist.doctor.answering import Answering, Guest
from tfdist.doctor.calling import Call
from tfdist.doctor.greeting import Greeting, leads_elsewhere
from tfdist.doctor.measuring import Clocks, Phase
from tfdist.doctor.pair import Pair, judge, occupied, unreached
from tfdist.doctor.sightings import Kind, Sighting
from tfdist.errors import PortTakenError
from tfdist.launch.connecting import Resolver, look_up
from tfdist.launch.lines import LineError, LineSocket, Message
from tfdist.launch.waiting import wait_for

SETTLE_SECONDS = 5.0
"""How long a host may stay out of reach after its own doctor has called here."""
_TICK_SECONDS = 0.05
_QUIET_SECONDS = 1.0
_NAMED = 4
_FOREIGN = (Kind.GRPC, Kind.SILENT, Kind.STRANGER)
_DONE: Message = {"done": True}


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
        self.pairs: dict[tuple[int, int], Pair] = {}
        self.other_lists: dict[str, str] = {}
        """Host -> worker list, of doctors that were given another."""
        self._came: dict[int, tuple[float, Greeting]] = {}
        self._finished: set[int] = set()
        self._strange: dict[int, float] = {}
        self._told: dict[str, set[tuple[int, int] | str]] = {}

    def run(self) -> list[Pair]:
        """Meets them; returns what is known of every connection, ordered.

        Raises:
            PortTakenError: This doctor cannot listen on a port that it holds.
        """
        try:
            self._listen()
            while not self._is_over():
                self._step()
                self._wait()
            self._settle_rest()
            self._share()
        finally:
            self._answering.close()
            for call in self._calls.values():
                call.close()
        return [pair for _, pair in sorted(self.pairs.items())]

    def _listen(self) -> None:
        try:
            self._answering.open()
        except OSError as error:
            raise PortTakenError(
                f"This doctor cannot listen on its workers' ports {sorted(self._answering.ports)}: {error}. "
                "Choose other ports in --workers (the same list on every host)."
            ) from error

    def _to_call(self) -> Iterator[int]:
        """Every other worker, in a ring from this one on, so that not all measure their line to the same at once."""
        local, count = self._greeting.local, len(self._cluster)
        for step in range(1, count + 1):
            index = (local[0] + step) % count
            if index not in local or (len(local) > 1 and index not in self._greeting.taken):
                yield index

    def _step(self) -> None:
        for guest in self._answering.step(self._hear_guest):
            self._forget(guest.greeting)
        for guest in self._answering.guests:
            self._notice(guest.greeting)
        for call in self._calls.values():
            # Of what is settled only a line that still tells something goes on.
            if call.line is not None or not self._is_settled(call.index):
                self._step_call(call)
        self._measure()
        self._settle()
        self._share()
        self._say()

    def _step_call(self, call: Call) -> None:
        before = call.theirs
        try:
            for message in call.step():
                self._hear(call.theirs, message)
        except LineError:
            call.retry(Sighting(Kind.STRANGER))
        if call.is_lost():
            self._forget(before)
            if self._is_settled(call.index):
                call.close()
            else:
                call.retry(Sighting(Kind.LEFT))
        self._notice(call.theirs)
        if call.theirs is not None and not self._is_ours(call.theirs):
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
        self._hear(guest.greeting, message)

    def _hear(self, theirs: Greeting | None, message: Message) -> None:
        if theirs is None or not self._is_ours(theirs):
            return
        if "pair" in message:
            pair = Pair.from_message(message)
            if set(pair.sources) <= set(theirs.local) and 0 <= pair.target < len(self._cluster):
                self.pairs.setdefault(pair.key, pair)
        elif message == _DONE:
            self._finished.update(theirs.local)

    def _notice(self, theirs: Greeting | None) -> None:
        if theirs is None:
            return
        if not self._is_ours(theirs):
            self.other_lists[theirs.host] = theirs.cluster
            return
        for index in theirs.local:
            self._came.setdefault(index, (self._clocks.steady(), theirs))

    def _is_ours(self, theirs: Greeting) -> bool:
        return theirs.cluster == self._greeting.cluster

    def _forget(self, theirs: Greeting | None) -> None:
        if theirs is not None:
            self._told.pop(theirs.doctor, None)

    def _measure(self) -> None:
        """One line at a time, so that they do not slow one another."""
        if any(self._is_measuring(call) for call in self._calls.values()):
            return
        for call in self._calls.values():
            theirs = call.theirs
            if theirs is None or call.measurement is not None or call.is_lost() or self._is_settled(call.index):
                continue
            if theirs.doctor != self._greeting.doctor and not leads_elsewhere(self._greeting, theirs, call.index):
                call.measure()
                return

    def _is_measuring(self, call: Call) -> bool:
        measurement = call.measurement
        return not self._is_settled(call.index) and measurement is not None and measurement.phase is not Phase.DONE

    def _settle(self) -> None:
        cannot_listen = set(self._greeting.local) <= set(self._greeting.taken)
        for call in self._calls.values():
            if self._is_settled(call.index):
                continue
            since, theirs = self._came.get(call.index, (None, None))
            if call.theirs is not None:
                self._settle_met(call, call.theirs)
            elif theirs is not None and call.index in theirs.taken:
                self._keep(occupied(self._greeting, call.index, theirs.taken[call.index]))
            elif since is not None and self._clocks.steady() > since + SETTLE_SECONDS:
                self._keep(unreached(self._greeting, call.index, call.sighting))
            elif cannot_listen and call.sighting.kind in _FOREIGN:
                # Its doctor, if there is one, can neither be called there nor call here.
                self._keep(unreached(self._greeting, call.index, call.sighting))
                self._finished.add(call.index)

    def _settle_met(self, call: Call, theirs: Greeting) -> None:
        measurement = call.measurement
        if measurement is None:
            if theirs.doctor == self._greeting.doctor or leads_elsewhere(self._greeting, theirs, call.index):
                self._keep(judge(self._greeting, theirs, call.index, call.peer, None))
        elif measurement.phase is Phase.DONE or measurement.stalled():
            stalled = None if measurement.phase is Phase.DONE else measurement.phase
            self._keep(judge(self._greeting, theirs, call.index, call.peer, measurement.result(), stalled))

    def _settle_rest(self) -> None:
        for call in self._calls.values():
            if self._is_settled(call.index):
                continue
            if call.theirs is None:
                self._keep(unreached(self._greeting, call.index, call.sighting))
            else:
                result = call.measurement.result() if call.measurement else None
                self._keep(judge(self._greeting, call.theirs, call.index, call.peer, result))

    def _keep(self, pair: Pair) -> None:
        self.pairs[pair.key] = pair
        call = self._calls[pair.target]
        if call.theirs is None:
            call.close()

    def _is_settled(self, index: int) -> bool:
        return (self._greeting.local[0], index) in self.pairs

    def _share(self) -> None:
        """Tells every doctor on the line what it does not know yet of this one's connections."""
        own = {pair.key: pair for pair in self.pairs.values() if pair.sources == self._greeting.local}
        complete = all(map(self._is_settled, self._calls))
        for doctor, line in self._lines().items():
            told = self._told.setdefault(doctor, set())
            for key in own.keys() - told:
                line.send({"pair": own[key].to_json()})
                told.add(key)
            if complete and "done" not in told:
                line.send(_DONE)
                told.add("done")

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
        settled = all(map(self._is_settled, self._calls))
        return now > self._deadline or (settled and others <= self._finished | strange)

    def _say(self) -> None:
        missing = [call for call in self._calls.values() if call.theirs is None and not self._is_settled(call.index)]
        named = "; ".join(f"worker {call.index} ({call.address}): {call.sighting.found}" for call in missing[:_NAMED])
        more = f"; and {len(missing) - _NAMED} more" if len(missing) > _NAMED else ""
        left = self._deadline - self._clocks.steady()
        if missing and named + more != self._said and left < self._seconds - _QUIET_SECONDS:
            self._said = named + more
            self._tell(f"waiting up to {max(left, 0):.0f} s for {self._said}")
