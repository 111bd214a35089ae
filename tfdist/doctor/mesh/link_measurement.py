"""Measurement of a line: round trip, difference of the clocks, and bandwidth. One end asks, the other answers."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass

from tfdist.net.line_socket import LineSocket, Message
from tfdist.rundir.json_record import is_finite

PINGS = 8
# Longer lines cost the receiver more copying when little arrives at a time, shorter ones more parsing.
_LINE_BYTES = 1 << 14
_SMALL, _LARGE = 1 << 18, 1 << 23
# The small load comes first: if it takes longer than this, the large one would take too long.
_SLOW_SECONDS = 0.1
STALLED_SECONDS = 10.0
"""After so long without an answer, the line has stalled."""


@dataclass(frozen=True)
class Clocks:
    """The time.

    Attributes:
        steady: Seconds, never going back.
        wall: Seconds since 1970, by this machine's clock.
    """

    steady: Callable[[], float]
    wall: Callable[[], float]


@dataclass(frozen=True)
class Ping:
    """One question and its answer.

    Attributes:
        asked: This machine's wall clock when it asked, in seconds.
        told: The other machine's wall clock when it answered.
        took: Seconds from the question to the answer.
    """

    asked: float
    told: float
    took: float

    @property
    def offset(self) -> float:
        """Seconds that the other clock is ahead, if both ways took the same time; else off by up to half of `took`."""
        return self.told - (self.asked + self.took / 2)


@dataclass(frozen=True)
class LinkQuality:
    """The result of a measurement.

    Attributes:
        round_trip: Seconds, of the fastest ping.
        offset: Seconds that the other clock is ahead, up to half of the round trip.
        bandwidth: Bytes a second towards the other; None when nothing came through.
    """

    round_trip: float
    offset: float
    bandwidth: float | None


def fastest(pings: list[Ping]) -> Ping:
    """The most accurate ping: one that took longer also waited somewhere."""
    return min(pings, key=lambda ping: ping.took)


class MeasurementPhase(enum.Enum):
    """Pings, then the small load, then perhaps the large one: PINGS -> SMALL -> LARGE -> DONE."""

    PINGS = "pings"
    SMALL = "small load"
    LARGE = "large load"
    DONE = "done"


class Measurement:
    """The asking end."""

    def __init__(self, line: LineSocket, clocks: Clocks) -> None:
        self.phase = MeasurementPhase.PINGS
        self._line = line
        self._clocks = clocks
        self._pings: list[Ping] = []
        self._bandwidth: float | None = None
        self._began = self._wall = 0.0
        self._ping()

    def take(self, message: Message) -> None:
        """Takes an answer and asks on; other messages are ignored."""
        took = self._clocks.steady() - self._began
        told = message.get("pong")
        if self.phase is MeasurementPhase.PINGS and is_finite(told):
            self._pings.append(Ping(self._wall, told, took))
            if len(self._pings) < PINGS:
                self._ping()
            else:
                self._send(MeasurementPhase.SMALL, _SMALL)
        elif "loaded" in message and self.phase in (MeasurementPhase.SMALL, MeasurementPhase.LARGE):
            self._loaded(took)

    def stalled(self) -> bool:
        """Returns whether an answer is overdue."""
        return self.phase is not MeasurementPhase.DONE and self._clocks.steady() - self._began > STALLED_SECONDS

    def result(self) -> LinkQuality | None:
        """The result so far; None before the first answer."""
        if not self._pings:
            return None
        best = fastest(self._pings)
        return LinkQuality(best.took, best.offset, self._bandwidth)

    def _ping(self) -> None:
        self._began, self._wall = self._clocks.steady(), self._clocks.wall()
        self._line.send({"ping": True})

    def _send(self, phase: MeasurementPhase, size: int) -> None:
        self.phase = phase
        self._began = self._clocks.steady()
        count = size // _LINE_BYTES
        for number in range(count):
            self._line.send({"load": "x" * _LINE_BYTES, "last": number == count - 1})

    def _loaded(self, took: float) -> None:
        size = _SMALL if self.phase is MeasurementPhase.SMALL else _LARGE
        travelled = took - fastest(self._pings).took
        # The time of a load that came through faster than a ping cannot be told from zero.
        self._bandwidth = size / max(travelled, took / 10, 1e-6)
        if self.phase is MeasurementPhase.SMALL and took < _SLOW_SECONDS:
            self._send(MeasurementPhase.LARGE, _LARGE)
        else:
            self.phase = MeasurementPhase.DONE


def answer(line: LineSocket, message: Message, clocks: Clocks) -> None:
    """The answering end: replies to what a measurement asks, and ignores all else."""
    if "ping" in message:
        line.send({"pong": clocks.wall()})
    elif "load" in message and message.get("last") is True:
        line.send({"loaded": True})
