"""The part of the steps' time that was spent waiting for data, and the clock that measures it."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

MUCH = 0.1
"""The share of the steps' time from which waiting for data is worth a remedy."""

MUCH_SECONDS = 1.0
"""Seconds of waiting in an epoch: below this there is nothing to gain."""


@dataclass(frozen=True)
class InputWait:
    """The wait of an interval of training.

    Attributes:
        seconds: Seconds that its steps took.
        waited: Those in which a step had begun and its data was not there; 0 where they are not measured.
        busy: Mean number of cores that this process kept busy.
        free: Mean number of cores of the machine that no process kept busy; any number where that is not known.
    """

    seconds: float
    waited: float
    busy: float
    free: float = math.inf

    @property
    def share(self) -> float:
        """The share of the steps' time that waited for data, 0 to 1."""
        return min(1.0, self.waited / self.seconds) if self.seconds > 0 else 0.0

    @property
    def is_much(self) -> bool:
        """True if it is worth a remedy."""
        return self.share > MUCH and self.waited > MUCH_SECONDS


def idle_seconds(statistics: Path = Path("/proc/stat")) -> float | None:
    """Seconds since the start of the machine that its cores were idle, all together; None where that is not known.

    Args:
        statistics: The kernel's, in which cores that wait for a disk are idle, too.
    """
    try:
        first = statistics.read_text("ascii").split("\n", 1)[0].split()
        return (int(first[4]) + int(first[5])) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError):
        return None


class InputWaitClock:
    """Measures the wait of an interval of steps.

    Args:
        fetched: Seconds that training steps have waited for data since the process began.
        clock: Seconds, never going back.
        cpu: Seconds of processor time of all threads of this process.
        idle: Seconds that the cores of the machine were idle, all together; None where that is not known.
    """

    def __init__(
        self,
        fetched: Callable[[], float],
        clock: Callable[[], float] = time.perf_counter,
        cpu: Callable[[], float] = time.process_time,
        idle: Callable[[], float | None] = idle_seconds,
    ) -> None:
        self._fetched, self._clock, self._cpu, self._idle = fetched, clock, cpu, idle
        self.begin()

    def begin(self) -> None:
        """Begins the interval."""
        self._fetched_before = self._fetched()
        self._begun = self._last = (self._clock(), self._cpu())
        self._idle_before = self._idle()

    @property
    def last(self) -> float:
        """The time at which the last step ended, by `clock`; before the first one, that at which the interval began."""
        return self._last[0]

    def step(self) -> None:
        """A step is done. It takes a microsecond."""
        self._last = (self._clock(), self._cpu())

    def end(self) -> InputWait:
        """The wait of the interval, which ended with the last step."""
        seconds, cpu = (last - begun for last, begun in zip(self._last, self._begun, strict=True))
        seconds = max(seconds, 1e-9)
        return InputWait(seconds, self._fetched() - self._fetched_before, cpu / seconds, self._free())

    def _free(self) -> float:
        """Of the interval until now, as looking for it takes too long for every step."""
        before, now, seconds = self._idle_before, self._idle(), self._clock() - self._begun[0]
        return math.inf if before is None or now is None or seconds <= 0 else max(0.0, now - before) / seconds
