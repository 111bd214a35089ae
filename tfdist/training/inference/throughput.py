"""Throughput of predictions: a line now and then that says how far they are, and how fast."""

from __future__ import annotations

import time
from collections.abc import Callable

from tfdist.text import format_count, format_countdown
from tfdist.training.announcements import Announce

LINE_SECONDS = 10.0
"""Between two lines."""


class Throughput:
    """Says how far predictions are.

    Args:
        samples: All samples.
        done: Those that an earlier start has predicted.
        announce: Says a line.
        clock: Seconds, never going back.
    """

    def __init__(
        self, samples: int, done: int, announce: Announce, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._samples, self._before, self._announce, self._clock = samples, done, announce, clock
        self._begun = self._said = clock()
        self._done = done

    def reach(self, done: int) -> None:
        """So many samples have been predicted, from the first one on."""
        self._done, now = done, self._clock()
        if now - self._said >= LINE_SECONDS and done < self._samples:
            self._said = now
            left = format_countdown((self._samples - done) / max(self.rate, 1e-9))
            share = f"{done:,} of {format_count(self._samples, 'sample')} ({done / self._samples:.0%})"
            self._announce(f"{share}, {self.rate:,.0f} samples/s, {left} left")

    @property
    def predicted(self) -> int:
        """The samples that this start has predicted."""
        return self._done - self._before

    @property
    def rate(self) -> float:
        """Samples a second, of this start."""
        return self.predicted / max(self.seconds, 1e-9)

    @property
    def seconds(self) -> float:
        """Seconds since the beginning of this start."""
        return self._clock() - self._begun
