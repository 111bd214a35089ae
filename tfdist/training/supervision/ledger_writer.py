"""The chief's part of the ledger: what its time goes to, written down every few seconds."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from tfdist.errors import RunDirError
from tfdist.rundir import ledger_lines
from tfdist.rundir.ledger_lines import TimeKind
from tfdist.training.supervision.tally import Tally

INTERVAL, MOST_INTERVAL = 5.0, 60.0
"""Seconds between two lines, at first and at most. A kill loses the account of at most so many."""

_LINES = 1000
"""In how many parts an old attempt is told: a ledger of months is still short."""

_log = logging.getLogger("tfdist")


class LedgerWriter:
    """Keeps a worker's tally, and writes the chief's. Its methods take microseconds; they belong into the main thread.

    A thread writes, so that no step waits for a disk, and so that a step which hangs is accounted for as well.

    Args:
        file: The ledger; None on workers other than the chief, whose account is the job's.
        attempt: The start of the workers that this one belongs to.
        clock: Seconds since 1970, never going back.
    """

    def __init__(self, file: Path | None, attempt: int, clock: Callable[[], float] | None = None) -> None:
        self._file = file
        self._attempt = attempt
        self._clock = clock or _steady_clock()
        self._lock = threading.Lock()
        self._writing = threading.Lock()
        self._closed = threading.Event()
        self._news = threading.Event()
        self._stepped = False
        self._begun = self._since = self._clock()
        self._tally = Tally(self._since)
        self._warned = False
        if file is not None:
            threading.Thread(target=self._run, name="tfdist-ledger", daemon=True).start()

    @contextlib.contextmanager
    def calling(self, *, trains: bool) -> Iterator[None]:
        """Around a call of `fit` (`trains`), `evaluate` or `predict`."""
        with self._lock:
            self._tally.begin_call(trains=trains, now=self._clock())
        try:
            yield
        finally:
            with self._lock:
                self._tally.end_call(self._clock())

    @contextlib.contextmanager
    def spending(self, kind: TimeKind) -> Iterator[None]:
        """Around what is accounted for by itself, such as whatever the training waits for until something is saved."""
        with self._lock:
            self._tally.begin_part(kind, self._clock())
        try:
            yield
        finally:
            with self._lock:
                self._tally.end_part(self._clock())

    def begin_batches(self) -> None:
        """Notes that batches of any kind begin."""
        with self._lock:
            self._tally.begin_batches(self._clock())

    def end_batches(self, trained: int, step: int) -> None:
        """Notes that they are done, `trained` training batches among them, with which `step` of the run are."""
        with self._lock:
            self._tally.end_batches(trained, step, self._clock())
        if trained and not self._stepped:
            # Where a line ends at the first step, it is known how long it took to come there.
            self._stepped = True
            self._news.set()

    def leave_steps(self) -> None:
        """Notes that what comes until the next training batch is no part of the steps."""
        with self._lock:
            self._tally.leave_steps(self._clock())

    def waited(self, total: float) -> None:
        """Notes how many seconds the training steps of this process have waited for their data until now."""
        with self._lock:
            self._tally.waited(total)

    def close(self) -> None:
        """Writes what is not written yet; nothing is from then on."""
        if self._file is not None and not self._closed.is_set():
            self._closed.set()
            self._news.set()
            self._write()

    def _run(self) -> None:
        while not self._closed.is_set():
            self._news.wait(interval(self._clock() - self._begun))
            self._news.clear()
            if not self._closed.is_set():
                self._write()

    def _write(self) -> None:
        assert self._file is not None
        with self._writing:
            with self._lock:
                since, self._since = self._since, self._clock()
                taken = self._tally.take(self._since)
            seconds = {kind.value: round(spent, 6) for kind, spent in taken.seconds.items()}
            entry = ledger_lines.LedgerInterval(self._attempt, since, self._since, seconds, taken.steps, taken.step)
            try:
                ledger_lines.append_entry(self._file, entry)
            except RunDirError as error:
                if not self._warned:
                    _log.warning("The ledger of the run's time cannot be written: %s", error)
                self._warned = True


def interval(age: float) -> float:
    """How many seconds there are until the next line of an attempt that is `age` seconds old."""
    return max(INTERVAL, min(MOST_INTERVAL, age / _LINES))


def _steady_clock() -> Callable[[], float]:
    """Seconds since 1970 by a clock that nobody sets while the process lives."""
    offset = time.time() - time.monotonic()
    return lambda: offset + time.monotonic()
