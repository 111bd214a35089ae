"""What this worker does, told to its launcher and written to its state file: at every change, and about once a second.

A thread tells and writes, so that no step waits for a disk or a socket, and so that a worker which hangs is still seen.
"""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator

from tfdist.errors import RunDirError
from tfdist.launch.environment import Assignment
from tfdist.rundir import State, WorkerState
from tfdist.training.supervision.activity import Activity, Limits

INTERVAL = 1.0
"""Seconds between two writes while the state stays the same."""

LEAST_SECONDS = 0.05
"""Between two writes of a state that changes all the time."""

_ENDS = (State.FINISHED, State.FAILED)

_log = logging.getLogger("tfdist")


class Heartbeat:
    """The teller of one worker's state. Its methods take microseconds; they belong into the main thread.

    Args:
        path: The state file.
        assignment: Who this worker is, and its limits.
        tell: Called with the state at every change, and about once a second while the worker gets on.
    """

    def __init__(
        self, path: os.PathLike[str], assignment: Assignment, tell: Callable[[WorkerState], None] | None = None
    ) -> None:
        self._path = path
        self._assignment = assignment
        self._host = socket.gethostname()
        self._tell = tell
        self._lock = threading.Lock()
        self._telling = threading.Lock()
        self._changed = threading.Event()
        self._over = threading.Event()
        self._told: tuple[State, int] | None = None
        self._warned = False
        limits = Limits(assignment.first_step_timeout, assignment.step_timeout)
        self._activity = Activity(limits, time.time())
        self._rate = self._busy = 0.0
        self._beat()
        threading.Thread(target=self._run, name="tfdist-heartbeat", daemon=True).start()

    @property
    def state(self) -> WorkerState:
        """What the worker does now."""
        with self._lock:
            return self._state()

    @property
    def step(self) -> int:
        """Batches trained since the run began, over epochs and attempts."""
        return self._activity.step

    @property
    def has_begun(self) -> bool:
        """Whether a batch of any kind has begun, so that epoch and step mean something."""
        return self._activity.has_begun

    def enter(self, state: State) -> None:
        """Notes what the worker does from now on, outside of `fit`, `evaluate` and `predict`.

        The last words, `finished` and `failed`, are said when this returns.
        """
        with self._lock:
            self._activity.be(state, time.time())
        if state in _ENDS:
            self._over.set()
            self._beat(last=True)
        self._changed.set()

    def begin_epoch(self, epoch: int) -> None:
        """Notes the epoch, counted from 0."""
        with self._lock:
            self._activity.epoch = epoch
            self._activity.move(time.time())
        self._changed.set()

    def resume(self, epoch: int, step: int) -> None:
        """Notes where the run goes on that an earlier attempt began: the epoch from 0, and the batches done."""
        with self._lock:
            self._activity.epoch, self._activity.step = epoch, step
            self._activity.move(time.time())
        self._changed.set()

    def move(self) -> None:
        """Notes that the worker got on: a callback ended, say."""
        with self._lock:
            self._activity.move(time.time())

    @contextlib.contextmanager
    def forming(self) -> Iterator[None]:
        """Around the forming of the cluster. It is told before it begins: then no other thread may run."""
        with self._lock:
            self._activity.begin_forming(time.time())
        self._beat()
        try:
            yield
        finally:
            with self._lock:
                self._activity.end_forming(time.time())
            self._changed.set()

    @contextlib.contextmanager
    def calling(self, *, trains: bool) -> Iterator[None]:
        """Around a call of `fit` (`trains`), `evaluate` or `predict`."""
        with self._lock:
            self._activity.begin_call(trains=trains, now=time.time())
        self._changed.set()
        try:
            yield
        finally:
            with self._lock:
                self._activity.end_call(time.time())
            self._changed.set()

    @contextlib.contextmanager
    def saving(self) -> Iterator[None]:
        """Around the writing of a model or checkpoint."""
        with self._lock:
            self._activity.begin_save(time.time())
        self._changed.set()
        try:
            yield
        finally:
            with self._lock:
                self._activity.end_save(time.time())
            self._changed.set()

    def begin_batches(self) -> None:
        """Notes that batches of any kind begin."""
        with self._lock:
            self._activity.begin_batches()

    def end_batches(self, trained: int) -> None:
        """Notes that they are done, with `trained` training batches among them."""
        with self._lock:
            limit = self._activity.limit()
            self._activity.end_batches(trained=trained, now=time.time())
            compiled = self._activity.limit() != limit
        if compiled:
            self._changed.set()

    def pace(self, rate: float, busy: float) -> None:
        """Notes the samples a second of the global batch, and the seconds a step that are this worker's own."""
        with self._lock:
            self._rate, self._busy = rate, busy

    def _run(self) -> None:
        while not self._over.wait(LEAST_SECONDS):
            self._changed.wait(INTERVAL - LEAST_SECONDS)
            self._changed.clear()
            self._beat()

    def _beat(self, *, last: bool = False) -> None:
        with self._telling:
            if self._over.is_set() and not last:
                # The process is about to end, and must not do so half-way through a write of this thread.
                return
            state = self.state
            news = (state.state, state.moves)
            if self._tell is not None and news != self._told:
                self._tell(state)
                self._told = news
            try:
                # Not durable: a state file is read while the run lives.
                state.write(self._path, durable=False)
            except RunDirError as error:
                if not self._warned:
                    _log.warning("The state file cannot be written: %s", error)
                self._warned = True

    def _state(self) -> WorkerState:
        now = time.time()
        activity = self._activity
        return WorkerState(
            index=self._assignment.index,
            address=self._assignment.address,
            host=self._host,
            pid=os.getpid(),
            attempt=self._assignment.attempt,
            state=activity.state(now),
            epoch=activity.epoch,
            step=activity.step,
            time=now,
            moves=activity.moves,
            moved=activity.moved,
            limit=activity.limit(),
            rate=self._rate,
            busy=self._busy,
        )
