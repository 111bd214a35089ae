"""Step rate of a worker: how fast it trains, over its last steps. Pure."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

STEPS = 50
SECONDS = 5.0
"""Figures are means over so many steps, or over the steps of so many seconds if those are more."""


@dataclass(frozen=True)
class StepMark:
    """Totals at the end of a batch.

    Attributes:
        steps: Training batches.
        seconds: Seconds spent in them and between two of them.
        samples: Samples of their global batches.
        waited: Seconds of those that were spent waiting for other workers.
    """

    steps: int
    seconds: float
    samples: float
    waited: float


class StepRate:
    """Computes rates from the marks of the last steps."""

    def __init__(self) -> None:
        self._marks: deque[StepMark] = deque()

    def add(self, mark: StepMark) -> None:
        """Adds a mark later than all others."""
        self._marks.append(mark)
        while len(self._marks) > 2 and _spans_enough(self._marks[1], mark):
            self._marks.popleft()

    def rate(self) -> float:
        """Samples of the global batch a second; 0 while unknown."""
        span = self._span()
        return span.samples / span.seconds if span.seconds > 0 else 0.0

    def busy(self) -> float:
        """Seconds a step, without those of waiting for other workers; 0 while unknown, or where there is no waiting."""
        span = self._span()
        if not span.steps or not self._marks[-1].waited:
            return 0.0
        return max(0.0, span.seconds - span.waited) / span.steps

    def step_seconds(self) -> float:
        """Seconds a step, of its own and of waiting; 0 while unknown."""
        span = self._span()
        return span.seconds / span.steps if span.steps else 0.0

    def _span(self) -> StepMark:
        if len(self._marks) < 2:
            return StepMark(0, 0.0, 0.0, 0.0)
        first, last = self._marks[0], self._marks[-1]
        return StepMark(
            last.steps - first.steps,
            last.seconds - first.seconds,
            last.samples - first.samples,
            last.waited - first.waited,
        )


def _spans_enough(first: StepMark, last: StepMark) -> bool:
    return last.steps - first.steps >= STEPS and last.seconds - first.seconds >= SECONDS
