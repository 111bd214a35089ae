"""Tally of a process's seconds by what they were spent on. Pure: every call comes with its time."""

from __future__ import annotations

from tfdist.rundir.ledger_lines import TimeKind


class TimeTally:
    """Adds up seconds by kind, and takes the time that steps waited for data off the time of the steps.

    Args:
        now: The time, in seconds.
    """

    def __init__(self, now: float) -> None:
        self._now = now
        self._seconds: dict[TimeKind, float] = {}
        self._waited = self._due = 0.0
        self._forgives = True

    def charge(self, kind: TimeKind, now: float) -> None:
        """Adds the time since the last charge to `kind`."""
        # What the first batches waited for belongs to compiling.
        self._forgives = self._forgives or kind is TimeKind.COMPILE
        self._seconds[kind] = self._seconds.get(kind, 0.0) + max(0.0, now - self._now)
        self._now = max(self._now, now)

    def wait_for_data(self, total: float) -> None:
        """Notes the seconds that training steps have waited for data since the process began: no step time."""
        if not self._forgives:
            self._due += max(0.0, total - self._waited)
        self._waited = total
        self._forgives = False

    def take(self) -> dict[TimeKind, float]:
        """The seconds that were charged since the last call, or since the beginning."""
        seconds = {kind: spent for kind, spent in self._seconds.items() if spent}
        # A wait that is longer than the interval is taken off the steps of the next ones.
        waited = min(self._due, seconds.get(TimeKind.STEP, 0.0))
        if waited:
            self._due -= waited
            seconds[TimeKind.STEP] -= waited
            seconds[TimeKind.INPUT] = waited
        self._seconds = {}
        return seconds
