"""The chief's part of the ledger: what its time goes to, written down every few seconds."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from tfdist.errors import RunDirError
from tfdist.rundir import ledger
from tfdist.training.tally import Tally

INTERVAL = 5.0
"""Seconds between two lines. A kill loses the account of at most so many."""

_log = logging.getLogger("tfdist")


class TimeAccount:
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
        self._since = self._clock()
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
    def saving(self) -> Iterator[None]:
        """Around whatever the training waits for until something is saved."""
        with self._lock:
            self._tally.begin_save(self._clock())
        try:
            yield
        finally:
            with self._lock:
                self._tally.end_save(self._clock())

    def begin_batches(self) -> None:
        """Notes that batches of any kind begin."""
        with self._lock:
            self._tally.begin_batches(self._clock())

    def end_batches(self, trained: int, step: int) -> None:
        """Notes that they are done, `trained` training batches among them, with which `step` of the run are."""
        with self._lock:
            self._tally.end_batches(trained, step, self._clock())

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
            self._write()

    def _run(self) -> None:
        while not self._closed.wait(INTERVAL):
            self._write()

    def _write(self) -> None:
        assert self._file is not None
        with self._writing:
            with self._lock:
                since, self._since = self._since, self._clock()
                taken = self._tally.take(self._since)
            seconds = {kind.value: round(spent, 6) for kind, spent in taken.seconds.items()}
            entry = ledger.Stretch(self._attempt, since, self._since, seconds, taken.steps, taken.step)
            try:
                ledger.append(self._file, entry)
            except RunDirError as error:
                if not self._warned:
                    _log.warning("The ledger of the run's time cannot be written: %s", error)
                self._warned = True


def _steady_clock() -> Callable[[], float]:
    """Seconds since 1970 by a clock that nobody sets while the process lives."""
    offset = time.time() - time.monotonic()
    return lambda: offset + time.monotonic()
