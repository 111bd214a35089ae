"""Dependencies of a worker group: how it starts workers, hears other launchers and waits; tests give fakes."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from tfdist.launch.environment import Assignment
from tfdist.launch.peers.coordinator import Coordinator
from tfdist.launch.peers.messages import Stop
from tfdist.launch.signals import Signals
from tfdist.launch.worker.process_termination import Orphans
from tfdist.launch.worker.worker_process import Worker
from tfdist.net.bounded_wait import Source, wait_for
from tfdist.rundir.failure import Failure
from tfdist.rundir.state_records import WorkerState

StartWorker = Callable[[Assignment], Worker]
DiagnoseExit = Callable[[Worker, int], Failure | None]
WaitForSources = Callable[[Sequence[Source], float], None]


@dataclass(frozen=True)
class Dependencies:
    """The objects and functions that a worker group and its attempts use.

    Attributes:
        start: Starts a worker.
        diagnose: The failure that an ended worker's exit code and error file tell of; None when it did not fail by
            itself.
        coordinator: The connection to the other launchers.
        signals: The signals that this launcher gets.
        linked: A context in which the workers start, with their assignments for it.
        grace: Seconds that the workers have to stop at a step boundary when the job is asked to stop.
        observe: Called with the states of all workers whenever one of them has reported a new one.
        progress: Called with what the chief tells of its progress, if that is a worker of this launcher; None once its
            training has ended.
        judge_stop: The stop as the job ends by it, from the stop that was asked for and the greatest step that a worker
            has reached; asked by the leader when the job ends.
        orphans: The processes that workers leave behind; None where they are left alone.
        clock: Seconds, monotonic.
        wait: Waits for the first of some sources.
    """

    start: StartWorker
    diagnose: DiagnoseExit
    coordinator: Coordinator
    signals: Signals
    linked: Callable[[Sequence[Assignment]], AbstractContextManager[Sequence[Assignment]]] = contextlib.nullcontext
    grace: float = 30.0
    observe: Callable[[Mapping[int, WorkerState]], None] = lambda states: None
    progress: Callable[[Mapping[str, Any] | None], None] = lambda told: None
    judge_stop: Callable[[Stop, int], Stop] = lambda stop, step: stop
    orphans: Orphans | None = None
    clock: Callable[[], float] = time.monotonic
    wait: WaitForSources = wait_for
