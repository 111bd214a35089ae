"""The launcher's knowledge of its job, as a value that other threads may read at any time."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tfdist.launch.job_phases import JobPhase
from tfdist.rundir.worker_state_record import State, WorkerState


@dataclass(frozen=True)
class RunFacts:
    """A job at one moment.

    Attributes:
        run: The run's name.
        run_dir: Its directory on this machine.
        epochs: Epochs that the run is to have; None where that is not known, as of a script.
        phase: The phase that the job is in.
        attempt: Number of the current attempt, from 0.
        restarts: Restarts of all workers since this launcher started.
        states: The last state that each worker has reported, of the workers that this launcher hears of.
        last_step: When a step was seen to end for the last time, in seconds since 1970 (UTC); None before the first.
        seconds: Kind of time -> seconds of the run that were spent on it, of all attempts.
        epoch_metrics: Loss and metrics of the last epoch that ended.
    """

    run: str = "run"
    run_dir: str = ""
    epochs: int | None = None
    phase: JobPhase = JobPhase.FORMING
    attempt: int = 0
    restarts: int = 0
    states: Mapping[int, WorkerState] = field(default_factory=dict)
    last_step: float | None = None
    seconds: Mapping[str, float] = field(default_factory=dict)
    epoch_metrics: Mapping[str, float] = field(default_factory=dict)


class RunMetrics:
    """Takes what the launcher sees. No method waits for anything but another one of them.

    Args:
        run: The run's name.
        epochs: Epochs that the run is to have; None where that is not known.
    """

    def __init__(self, run: str = "run", epochs: int | None = None) -> None:
        self._lock = threading.Lock()
        self._facts = RunFacts(run=run, epochs=epochs)

    @property
    def facts(self) -> RunFacts:
        """The facts that are known now."""
        return self._facts

    def note(self, **facts: Any) -> None:
        """Replaces some of the facts."""
        with self._lock:
            self._facts = replace(self._facts, **facts)

    def restarted(self, failed: Iterable[int]) -> None:
        """All workers start again, as some have failed."""
        with self._lock:
            known = self._facts.states
            ended = {index: replace(known[index], state=State.FAILED) for index in failed if index in known}
            restarts = self._facts.restarts + 1
            self._facts = replace(self._facts, restarts=restarts, states={**known, **ended})

    def observe(self, states: Mapping[int, WorkerState]) -> None:
        """Takes the states of workers; those that are done and report nothing any more keep their last one."""
        with self._lock:
            before = self._facts
            moved = [state.time for state in states.values() if _has_stepped(before.states.get(state.index), state)]
            last_step = max([*moved, before.last_step or 0.0]) or None
            self._facts = replace(before, states={**before.states, **states}, last_step=last_step)


def _has_stepped(before: WorkerState | None, now: WorkerState) -> bool:
    """Returns whether a worker has done a step since its last report; what an earlier attempt has done is no step of
    this."""
    if before is None or before.attempt != now.attempt:
        return False
    return now.step > before.step
