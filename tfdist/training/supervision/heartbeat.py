"""Reports of a worker's activity: to the launcher and its state file, once a second; the chief's, to the ledger.

A thread reports, so that no step waits for a disk or a socket, and so that a worker that hangs is still seen.

A thread writes, so that no step waits for a disk, and so that a step that hangs is accounted for as well.
"""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from tfdist.errors import RunDirError
from tfdist.launch.environment import Assignment
from tfdist.rundir import State, WorkerState, ledger_lines
from tfdist.rundir.bounded_disk import BoundedDisk
from tfdist.rundir.process_presence import start_ticks
from tfdist.training.supervision.activity_tracker import ActivityTracker

LEAST_INTERVAL, MOST_INTERVAL = 5.0, 60.0
"""Seconds between two lines, at first and at most. A kill loses the account of at most so many."""

_LINES = 1000
"""The number of lines an old attempt has: a ledger of months is still short."""



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
    return max(LEAST_INTERVAL, min(MOST_INTERVAL, age / _LINES))


INTERVAL = 1.0
"""Seconds between two reports while the state stays the same."""

LEAST_SECONDS = 0.05
"""Between two reports of a state that changes all the time."""

_DISK_SECONDS = 2.0
"""Seconds that a report waits for the disk of the state file."""

_log = logging.getLogger("tfdist")


class Heartbeat:
    """Reports one worker's state from a thread of its own.

    Args:
        path: The state file.
        assignment: Who this worker is.
        activity: What it does.
        tell: Called with the state at every change, and about once a second while the worker makes progress.
    """

    def __init__(
        self,
        path: os.PathLike[str],
        assignment: Assignment,
        activity: ActivityTracker,
        tell: Callable[[WorkerState], None] | None = None,
    ) -> None:
        self._path = path
        self._assignment = assignment
        self._activity = activity
        self._host = socket.gethostname()
        self._started = start_ticks(os.getpid())
        self._tell = tell
        self._reporting = threading.Lock()
        self._changed = threading.Event()
        self._over = threading.Event()
        self._told: tuple[State, int, int] | None = None
        self._moves, self._moved = -1, 0.0
        self._warned = False
        # What the launcher is told must not wait for a disk: it would take the silence for a hang.
        self._disk = BoundedDisk(path, _DISK_SECONDS)
        activity.notify_of_changes(self._changed)
        self._report()
        threading.Thread(target=self._run, name="tfdist-heartbeat", daemon=True).start()

    @contextlib.contextmanager
    def forming(self) -> Iterator[None]:
        """Around the forming of the cluster. It is reported before it begins: then no other thread may run."""
        with self._activity.forming():
            self._report()
            yield

    def finish(self, state: State) -> None:
        """Reports `state` as the worker's last, before it returns; nothing is reported from then on."""
        self._activity.enter(state)
        self._over.set()
        self._report(last=True)
        self._changed.set()

    def _run(self) -> None:
        while not self._over.wait(LEAST_SECONDS):
            self._changed.wait(INTERVAL - LEAST_SECONDS)
            self._changed.clear()
            self._report()

    def _report(self, *, last: bool = False) -> None:
        with self._reporting:
            if self._over.is_set() and not last:
                # The process is about to end, and must not do so half-way through a write of this thread.
                return
            state = self._state()
            news = (state.state, state.moves, state.begun)
            if self._tell is not None and news != self._told:
                self._tell(state)
                self._told = news
            try:
                # Not durable: a state file is read while the run lives.
                self._disk.call(lambda: state.write(self._path, durable=False))
            except RunDirError as error:
                if not self._warned:
                    _log.warning("The state file cannot be written: %s", error)
                self._warned = True

    def _state(self) -> WorkerState:
        activity, now = self._activity.snapshot(), time.time()
        if activity.moves != self._moves:
            # By the clock of the machine, which those who read the file have, too.
            self._moves, self._moved = activity.moves, now - activity.quiet
        return WorkerState(
            index=self._assignment.index,
            address=self._assignment.address,
            host=self._host,
            pid=os.getpid(),
            attempt=self._assignment.attempt,
            state=activity.state,
            epoch=activity.epoch,
            step=activity.step,
            time=now,
            moves=activity.moves,
            moved=self._moved,
            limit=activity.limit,
            rate=activity.rate,
            busy=activity.busy,
            begun=activity.begun,
            step_seconds=activity.step_seconds,
            started=self._started,
            calls=activity.calls,
            call=activity.call,
        )
