"""How much of the steps' time was spent waiting for data, and the clock that measures it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

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
    """

    seconds: float
    waited: float
    busy: float

    @property
    def share(self) -> float:
        """The share of the steps' time that waited for data, 0 to 1."""
        return min(1.0, self.waited / self.seconds) if self.seconds > 0 else 0.0

    @property
    def is_much(self) -> bool:
        """Whether it is worth a remedy."""
        return self.share > MUCH and self.waited > MUCH_SECONDS


class InputWaitClock:
    """Measures the wait of an interval of steps.

    Args:
        fetched: Seconds that training steps have waited for data since the process began.
        clock: Seconds, never going back.
        cpu: Seconds of processor time of all threads of this process.
    """

    def __init__(
        self,
        fetched: Callable[[], float],
        clock: Callable[[], float] = time.perf_counter,
        cpu: Callable[[], float] = time.process_time,
    ) -> None:
        self._fetched, self._clock, self._cpu = fetched, clock, cpu
        self.begin()

    def begin(self) -> None:
        """Begins the interval."""
        self._fetched_before = self._fetched()
        self._begun = self._last = (self._clock(), self._cpu())

    def step(self) -> None:
        """A step is done. It takes a microsecond."""
        self._last = (self._clock(), self._cpu())

    def end(self) -> InputWait:
        """The wait of the interval, which ended with the last step."""
        seconds, cpu = (last - begun for last, begun in zip(self._last, self._begun, strict=True))
        seconds = max(seconds, 1e-9)
        return InputWait(seconds, self._fetched() - self._fetched_before, cpu / seconds)
