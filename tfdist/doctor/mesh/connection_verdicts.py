"""Verdicts on this doctor's links: when it is known what a connection is like, and what it comes to."""

from __future__ import annotations

from tfdist.doctor.mesh.doctor_hello import DoctorHello, leads_elsewhere
from tfdist.doctor.mesh.doctor_link import DoctorLink
from tfdist.doctor.mesh.known_pairs import KnownPairs
from tfdist.doctor.mesh.link_measurement import Clocks, MeasurementPhase
from tfdist.doctor.mesh.pair import Pair, judge, occupied, unreached
from tfdist.net.dial_outcome import DialStatus

SETTLE_SECONDS = 5.0
"""How long a host may stay out of reach after its own doctor has called here."""
_FOREIGN = (DialStatus.GRPC, DialStatus.SILENT, DialStatus.STRANGER)


class ConnectionVerdicts:
    """Judges links, each once.

    Args:
        hello: This doctor's.
        clocks: The time.
        known: Where the verdicts are kept.
    """

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
