"""Metrics of a job, without a library: what the launcher knows of it, and the values that are served."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from tfdist.launch.job_phases import JobPhase
from tfdist.rundir.ledger_lines import TimeKind
from tfdist.rundir.state_records import State, WorkerState

WRITTEN_KINDS = tuple(kind.value for kind in TimeKind if kind not in (TimeKind.RESTART, TimeKind.REPLAY))
"""The kinds of time that the chief writes into its ledger."""


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
    """Returns whether a worker has done a step of this attempt since its last report."""
    if before is None or before.attempt != now.attempt:
        return False
    return now.step > before.step


@dataclass(frozen=True)
class Family:
    """One metric with all its values.

    Attributes:
        name: As Prometheus shows it; that of a counter ends with `_total`.
        kind: Whether it may fall.
        text: What it says.
        labels: The names of its labels.
        samples: The values of the labels, in their order, and the value.
    """

    name: str
    kind: Literal["gauge", "counter"]
    text: str
    labels: tuple[str, ...] = ()
    samples: Sequence[tuple[tuple[str, ...], float]] = ()


def families(facts: RunFacts) -> list[Family]:
    """All metrics of a job at one moment. One whose value is not known yet has no samples."""
    return [*_of_job(facts), *_of_training(facts), *_of_workers(facts), *_of_run_dir(facts)]


def _of_job(facts: RunFacts) -> list[Family]:
    phases = [((phase.value,), float(phase is facts.phase)) for phase in JobPhase]
    return [
        Family(
            "tfdist_run_info",
            "gauge",
            "1, with the run's name and directory.",
            ("run", "run_dir"),
            [((facts.run, facts.run_dir), 1.0)],
        ),
        Family("tfdist_job_phase", "gauge", "1 for the phase that the job is in, else 0.", ("phase",), phases),
        Family("tfdist_attempt", "gauge", "Number of the current attempt, from 0.", (), [((), facts.attempt)]),
        Family(
            "tfdist_restarts_total",
            "counter",
            "Restarts of all workers since this launcher started.",
            (),
            [((), facts.restarts)],
        ),
    ]


def _of_training(facts: RunFacts) -> list[Family]:
    """Of the job as a whole: the worker with the lowest index that is known speaks for it."""
    states = sorted(facts.states.values(), key=lambda state: state.index)
    first = states[0] if states else None
    known = {
        "step": None if first is None else first.step,
        "epoch": first.epoch + 1 if first is not None and first.step else None,
        "rate": None if first is None else first.rate,
        "seconds": None if first is None else first.step_seconds,
    }
    return [
        _one("tfdist_step", "Batches trained since the run began, over epochs and attempts.", known["step"]),
        _one("tfdist_epoch", "The epoch, from 1.", known["epoch"]),
        _one("tfdist_epochs", "Epochs that the run is to have; not known of a script.", facts.epochs),
        _one("tfdist_samples_per_second", "Samples of the global batch a second, over the last steps.", known["rate"]),
        _one("tfdist_step_seconds", "Seconds that a step takes, over the last steps.", known["seconds"]),
        _one(
            "tfdist_last_step_timestamp_seconds",
            "When a step was seen to end for the last time, in seconds since 1970.",
            facts.last_step,
        ),
    ]


def _of_workers(facts: RunFacts) -> list[Family]:
    states = [
        ((*_who(worker), state.value), float(state is _state(worker, facts.attempt)))
        for worker in _workers(facts)
        for state in State
    ]
    return [
        Family(
            "tfdist_worker_state",
            "gauge",
            "1 for the state that a worker is in, else 0.",
            ("worker", "host", "state"),
            states,
        ),
        _each(facts, "tfdist_worker_step", "Batches that a worker has trained.", lambda worker: worker.step),
        _each(
            facts,
            "tfdist_worker_busy_seconds",
            "Seconds a step that a worker takes for itself, without waiting for the others.",
            lambda worker: worker.busy,
        ),
        _each(
            facts,
            "tfdist_worker_last_progress_timestamp_seconds",
            "When a worker last made progress of any kind, in seconds since 1970.",
            lambda worker: worker.moved or worker.time,
        ),
    ]


def _of_run_dir(facts: RunFacts) -> list[Family]:
    seconds: Mapping[str, float] = {kind: facts.seconds.get(kind, 0.0) for kind in WRITTEN_KINDS}
    return [
        Family(
            "tfdist_time_seconds_total",
            "counter",
            "Seconds of the run by what the chief spent them on: step, input (waits for data), checkpoint, ...",
            ("kind",),
            [((kind,), spent) for kind, spent in seconds.items()] if facts.seconds else (),
        ),
        Family(
            "tfdist_metric",
            "gauge",
            "Loss and metrics of the last epoch that ended.",
            ("name",),
            [((name,), value) for name, value in facts.epoch_metrics.items()],
        ),
    ]


def _one(name: str, text: str, value: float | None) -> Family:
    return Family(name, "gauge", text, (), () if value is None else [((), value)])


def _each(facts: RunFacts, name: str, text: str, value: Callable[[WorkerState], float]) -> Family:
    samples = [(_who(worker), float(value(worker))) for worker in _workers(facts)]
    return Family(name, "gauge", text, ("worker", "host"), samples)


def _workers(facts: RunFacts) -> list[WorkerState]:
    return [facts.states[index] for index in sorted(facts.states)]


def _who(worker: WorkerState) -> tuple[str, str]:
    return str(worker.index), worker.host


def _state(worker: WorkerState, attempt: int) -> State:
    """The state of a worker; one that ran in an earlier attempt has told nothing of its new start yet."""
    return worker.state if worker.attempt == attempt or worker.state is State.FAILED else State.STARTING
