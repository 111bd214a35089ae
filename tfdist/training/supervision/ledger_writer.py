"""Writer of the ledger: what the chief's time was spent on, every few seconds.

A thread writes, so that no step waits for a disk, and so that a step that hangs is accounted for as well.
"""

from __future__ import annotations

import logging
import threading
from pathlib import Path

from tfdist.errors import RunDirError
from tfdist.rundir import ledger_lines
from tfdist.rundir.bounded_disk import BoundedDisk
from tfdist.training.supervision.activity_tracker import ActivityTracker

INTERVAL, MOST_INTERVAL = 5.0, 60.0
"""Seconds between two lines, at first and at most. A kill loses the account of at most so many."""

_LINES = 1000
"""The number of lines an old attempt has: a ledger of months is still short."""

_log = logging.getLogger("tfdist")


class LedgerWriter:
    """Writes the lines of one attempt.

    Args:
        file: The ledger.
        attempt: The start of the workers that this one belongs to.
        activity: What this worker does.
    """

    def __init__(self, file: Path, attempt: int, activity: ActivityTracker) -> None:
        self._file = file
        self._disk = BoundedDisk(file)
        self._attempt = attempt
        self._activity = activity
        self._writing = threading.Lock()
        self._closed = threading.Event()
        self._due = threading.Event()
        self._begun = activity.clock()
        self._warned = False
        # Where a line ends at the first step, it is known how long it took to get there.
        activity.notify_of_first_step(self._due)
        threading.Thread(target=self._run, name="tfdist-ledger", daemon=True).start()

    def close(self) -> None:
        """Writes what is not written yet; nothing is written from then on."""
        if not self._closed.is_set():
            self._closed.set()
            self._due.set()
            self._write()

    def _run(self) -> None:
        while not self._closed.is_set():
            self._due.wait(interval(self._activity.clock() - self._begun))
            self._due.clear()
            if not self._closed.is_set():
                self._write()

    def _write(self) -> None:
        with self._writing:
            spent = self._activity.take_time()
            seconds = {kind.value: round(amount, 6) for kind, amount in spent.seconds.items()}
            entry = ledger_lines.LedgerInterval(
                self._attempt, spent.since, spent.until, seconds, spent.steps, spent.step
            )
            try:
                self._disk.call(lambda: ledger_lines.append_entry(self._file, entry))
            except RunDirError as error:
                if not self._warned:
                    _log.warning("The ledger of the run's time cannot be written: %s", error)
                self._warned = True


def interval(age: float) -> float:
    """Returns how many seconds there are until the next line of an attempt that is `age` seconds old."""
    return max(INTERVAL, min(MOST_INTERVAL, age / _LINES))
