"""When it is known how a connection of this doctor's is, and what it comes to."""

from __future__ import annotations

from tfdist.doctor.mesh.address_sightings import Kind
from tfdist.doctor.mesh.doctor_hello import Greeting, leads_elsewhere
from tfdist.doctor.mesh.findings import Findings
from tfdist.doctor.mesh.link_measurement import Clocks, Phase
from tfdist.doctor.mesh.outgoing_link import Call
from tfdist.doctor.mesh.pair import Pair, judge, occupied, unreached

SETTLE_SECONDS = 5.0
"""How long a host may stay out of reach after its own doctor has called here."""
_FOREIGN = (Kind.GRPC, Kind.SILENT, Kind.STRANGER)


class Settling:
    """Judges calls, each once.

    Args:
        greeting: This doctor's.
        clocks: The time.
        findings: Where what they come to is kept.
    """

    def __init__(self, greeting: Greeting, clocks: Clocks, findings: Findings) -> None:
        self._greeting = greeting
        self._clocks = clocks
        self._findings = findings
        self._cannot_listen = set(greeting.local) <= set(greeting.taken)
        self._came: dict[int, tuple[float, Greeting]] = {}

    def notice(self, theirs: Greeting) -> None:
        """A doctor with the same worker list is there, whoever called whom."""
        for index in theirs.local:
            self._came.setdefault(index, (self._clocks.steady(), theirs))

    def settle(self, call: Call) -> None:
        """Keeps what a call comes to, as soon as that is known."""
        if self._findings.is_settled(call.index):
            return
        since, theirs = self._came.get(call.index, (None, None))
        if call.theirs is not None:
            self._settle_met(call, call.theirs)
        elif theirs is not None and call.index in theirs.taken:
            self._keep(call, occupied(self._greeting, call.index, theirs.taken[call.index]))
        elif since is not None and self._clocks.steady() > since + SETTLE_SECONDS:
            self._keep(call, unreached(self._greeting, call.index, call.sighting))
        elif self._cannot_listen and call.sighting.kind in _FOREIGN:
            # Its doctor, if there is one, can neither be called there nor call here.
            self._keep(call, unreached(self._greeting, call.index, call.sighting))
            self._findings.finished.add(call.index)

    def settle_now(self, call: Call) -> None:
        """The time is up: keeps what a call comes to so far."""
        if self._findings.is_settled(call.index):
            return
        if call.theirs is None:
            self._keep(call, unreached(self._greeting, call.index, call.sighting))
        else:
            result = call.measurement.result() if call.measurement else None
            self._keep(call, judge(self._greeting, call.theirs, call.index, call.peer, result))

    def _settle_met(self, call: Call, theirs: Greeting) -> None:
        measurement = call.measurement
        if measurement is None:
            if theirs.doctor == self._greeting.doctor or leads_elsewhere(self._greeting, theirs, call.index):
                self._keep(call, judge(self._greeting, theirs, call.index, call.peer, None))
        elif measurement.phase is Phase.DONE or measurement.stalled():
            stalled = None if measurement.phase is Phase.DONE else measurement.phase
            self._keep(call, judge(self._greeting, theirs, call.index, call.peer, measurement.result(), stalled))

    def _keep(self, call: Call, pair: Pair) -> None:
        self._findings.pairs[pair.key] = pair
        if call.theirs is None:
            call.close()
