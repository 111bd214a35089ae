"""Tracker of a worker's activity: the main thread notes what it does, heartbeat and ledger read it."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tfdist.rundir import State
from tfdist.rundir.ledger_lines import TimeKind
from tfdist.training.supervision.activity import Activity, Limits, TimeSpent


@dataclass(frozen=True)
class ActivitySnapshot:
    """A worker's activity at one moment.

    Attributes:
        state: What it does.
        epoch: The epoch it is in, from 0.
        step: Training batches done since the run began, over epochs and attempts.
        begun: Training batches begun since then; more than `step` while they run.
        moves: How often it made progress.
        quiet: Seconds since it last did.
        limit: Seconds that it may take to the next move; None where it may take any time.
        rate: Samples a second of the global batch; 0 while not known.
        busy: Seconds a step that are this worker's own; 0 while not known.
        step_seconds: Seconds that a step takes in all; 0 while not known.
        calls: How often a `fit`, `evaluate` or `predict` has begun, those inside of another one not counted.
        call: Which of them it is in, the outermost; empty outside of them.
    """

    state: State
    epoch: int
    step: int
    begun: int
    moves: int
    quiet: float
    limit: float | None
    rate: float
    busy: float
    step_seconds: float
    calls: int
    call: str


class ActivityTracker:
    """Keeps a worker's `Activity`. Its methods take microseconds; those for events belong into the main thread.

    `exchanging` may be entered in any thread.

    Args:
        limits: How long the worker may take between moves.
        clock: Seconds since 1970, never going back.
    """

    def __init__(self, limits: Limits, clock: Callable[[], float] | None = None) -> None:
        self.clock = clock or _steady_clock()
        self._lock = threading.Lock()
        self._begun = self.clock()
        self._activity = Activity(limits, self._begun)
        self._rate = self._busy = self._step_seconds = 0.0
        self._read_traced: Callable[[], tuple[int, int]] | None = None
        self._changes: list[threading.Event] = []
        self._first_steps: list[threading.Event] = []

    def notify_of_changes(self, event: threading.Event) -> None:
        """Has `event` set whenever the worker begins to do something else."""
        self._changes.append(event)

    def notify_of_first_step(self, event: threading.Event) -> None:
        """Has `event` set when the process has done its first training batch."""
        self._first_steps.append(event)

    def watch_traced(self, read: Callable[[], tuple[int, int]]) -> None:
        """Has `read` asked, now and then, how many collectives have begun and ended inside of functions."""
        self._read_traced = read

    @property
    def age(self) -> float:
        """Seconds since the worker has begun, before it loaded TensorFlow."""
        return self.clock() - self._begun

    @property
    def step(self) -> int:
        """Batches trained since the run began, over epochs and attempts."""
        return self._activity.step

    @property
    def has_begun(self) -> bool:
        """True if a batch of any kind has begun, so that epoch and step mean something."""
        return self._activity.has_begun

    @property
    def limit(self) -> float | None:
        """Seconds that the worker may take to its next move; None where it may take any time."""
        self._see_traced()
        with self._lock:
            return self._activity.limit()

    def snapshot(self) -> ActivitySnapshot:
        """Returns what the worker does now."""
        self._see_traced()
        with self._lock:
            activity, now = self._activity, self.clock()
            return ActivitySnapshot(
                activity.state(now),
                activity.epoch,
                activity.step,
                max(activity.begun, activity.step),
                activity.moves,
                now - activity.moved,
                activity.limit(),
                self._rate,
                self._busy,
                self._step_seconds,
                activity.calls,
                activity.call,
            )

    def _see_traced(self) -> None:
        if self._read_traced is not None:
            begun, ended = self._read_traced()
            with self._lock:
                self._activity.see_traced(begun, ended, self.clock())

    def take_time(self) -> TimeSpent:
        """Returns what the time since the last call, or since the beginning, was spent on."""
        with self._lock:
            return self._activity.take(self.clock())

    def enter(self, state: State) -> None:
        """Notes what the worker does from now on, outside of `fit`, `evaluate` and `predict`."""
        with self._changing() as activity:
            activity.enter(state, self.clock())

    def begin_epoch(self, epoch: int) -> None:
        """Notes the epoch, counted from 0."""
        with self._changing() as activity:
            activity.epoch = epoch
            activity.move(self.clock())

    def resume(self, epoch: int, step: int) -> None:
        """Notes where a run resumes that an earlier attempt began: the epoch from 0, and the batches done."""
        with self._changing() as activity:
            activity.epoch, activity.step = epoch, step
            activity.move(self.clock())

    def move(self) -> None:
        """Notes that the worker made progress: a callback ended, say."""
        with self._lock:
            self._activity.move(self.clock())

    @contextlib.contextmanager
    def forming(self) -> Iterator[None]:
        """Around the forming of the cluster, which has the limit of a first step."""
        with self._changing() as activity:
            activity.begin_forming(self.clock())
        try:
            yield
        finally:
            with self._changing() as activity:
                activity.end_forming(self.clock())

    @contextlib.contextmanager
    def calling(self, call: str) -> Iterator[None]:
        """Around a call of `fit`, `evaluate` or `predict`."""
        with self._changing() as activity:
            activity.begin_call(call, now=self.clock())
        try:
            yield
        finally:
            with self._changing() as activity:
                activity.end_call(self.clock())

    @contextlib.contextmanager
    def spending(self, kind: TimeKind) -> Iterator[None]:
        """Around what is counted as its own kind, such as the time for which the training waits for a save."""
        with self._changing() as activity:
            activity.begin_part(kind, self.clock())
        try:
            yield
        finally:
            with self._changing() as activity:
                activity.end_part(self.clock())

    @contextlib.contextmanager
    def exchanging(self) -> Iterator[None]:
        """Around a collective that the script calls, in whatever thread.

        It wakes nobody: there may be a thousand a second, and the next heartbeat tells of one that takes long.
        """
        with self._lock:
            self._activity.begin_exchange(self.clock())
        try:
            yield
        finally:
            with self._lock:
                self._activity.end_exchange(self.clock())

    def saving(self) -> contextlib.AbstractContextManager[None]:
        """Around the writing of a model or checkpoint, for as long as the training waits for it."""
        return self.spending(TimeKind.CHECKPOINT)

    def begin_batches(self, training: int = 0) -> None:
        """Notes that batches of any kind begin, with `training` training batches among them."""
        with self._lock:
            self._activity.begin_batches(self.clock(), training)

    def end_batches(self, trained: int) -> None:
        """Notes that they are done, with `trained` training batches among them."""
        with self._lock:
            limit = self._activity.limit()
            self._activity.end_batches(trained=trained, now=self.clock())
            compiled = self._activity.limit() != limit
        if compiled:
            _set(self._changes)
        if trained and self._first_steps:
            _set(self._first_steps)
            self._first_steps.clear()

    def leave_steps(self) -> None:
        """Notes that what comes until the next training batch is no part of the steps."""
        with self._lock:
            self._activity.leave_steps(self.clock())

    def wait_for_data(self, total: float) -> None:
        """Notes how many seconds the training steps of this process have waited for data until now."""
        with self._lock:
            self._activity.wait_for_data(total)

    def pace(self, rate: float, busy: float, step_seconds: float) -> None:
        """Notes the samples a second of the global batch, the seconds a step that are this worker's own, and all."""
        with self._lock:
            self._rate, self._busy, self._step_seconds = rate, busy, step_seconds

    @contextlib.contextmanager
    def _changing(self) -> Iterator[Activity]:
        with self._lock:
            yield self._activity
        _set(self._changes)


def _set(events: list[threading.Event]) -> None:
    for event in events:
        event.set()


def _steady_clock() -> Callable[[], float]:
    """Seconds since 1970 by a clock that is not adjusted while the process lives."""
    offset = time.time() - time.monotonic()
    return lambda: offset + time.monotonic()
