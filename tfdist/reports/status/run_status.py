"""Status of a run, judged from what was read and what is known of its processes: no clock, no disk."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, replace

from tfdist.launch.agent.stragglers import STEPS, WorkerLag, is_worth_a_word, lags
from tfdist.launch.job_phases import JobPhase
from tfdist.launch.peers.messages import beat_seconds
from tfdist.launch.run_dir.epoch_metrics import EpochMetrics
from tfdist.rundir.failure import Failure
from tfdist.rundir.process_presence import Presence
from tfdist.rundir.run_snapshot import Snapshot
from tfdist.rundir.state_records import State, WorkerState
from tfdist.text import format_duration

SILENT_SECONDS = 60.0
"""The age, in seconds, above which the state of a process that cannot be looked for makes the worker seem dead."""

QUIET_SECONDS = 10.0
"""After how long without progress a worker counts as stalled."""

_SETTLING_SECONDS = 2.0
"""Seconds after a job's end in which its failure may still be on its way to the disk."""

_THERE = (Presence.ALIVE, Presence.STOPPED)


class RunCondition(enum.StrEnum):
    """Condition of a run."""

    STARTING = "starting"
    RUNNING = "running"
    HANGING = "hanging"
    RESTARTING = "restarting"
    STOPPING = "stopping"
    DONE = "done"
    FAILED = "failed"
    STOPPED = "stopped"
    DEAD = "seems dead"

    @property
    def is_over(self) -> bool:
        """True if the run has ended."""
        return self in (RunCondition.DONE, RunCondition.FAILED, RunCondition.STOPPED)


@dataclass(frozen=True)
class WorkerStatus:
    """One worker.

    Attributes:
        state: Its state file.
        presence: Whether its process exists.
        quiet: Seconds since its last progress; since its state was written when there was none.
        silent: Seconds since its state was written.
        lag: How slow it is compared with the others; None while unknown.
        remarks: What is unusual.
    """

    state: WorkerState
    presence: Presence
    quiet: float
    silent: float
    lag: WorkerLag | None
    remarks: tuple[str, ...]

    @property
    def is_straggling(self) -> bool:
        """True if it was markedly slower than the others over its last 50 steps, at a cost that is worth a word.

        The cost is what it would be had all steps of the run been as these are.
        """
        if self.lag is None or not self.lag.is_straggling or self.state.step < STEPS:
            return False
        seconds = max(self.state.step_seconds, self.state.busy)
        return is_worth_a_word(self.lag.cost * self.state.step, seconds * self.state.step)


@dataclass(frozen=True)
class RunStatus:
    """A run at one moment.

    Attributes:
        snapshot: The files that were read.
        now: The time, in seconds since 1970 (UTC).
        condition: What the run is doing, or how it ended.
        attempt: Number of the current attempt, from 0.
        reason: Why, in one line; empty where the condition says it all.
        failure: The failure that ended the run, or else the one after which it was restarted.
        rows: The workers, the slowest first.
        metrics: Those of the last epoch that ended; None where there are none.
    """

    snapshot: Snapshot
    now: float
    condition: RunCondition
    attempt: int
    reason: str
    failure: Failure | None
    rows: tuple[WorkerStatus, ...]
    metrics: EpochMetrics | None = None

    @property
    def is_over(self) -> bool:
        """True if the run has ended."""
        return self.condition.is_over


def judge(snapshot: Snapshot, presences: Mapping[int, Presence], launcher: Presence | None, now: float) -> RunStatus:
    """Judges what a run is doing.

    Args:
        snapshot: What its directory holds.
        presences: Worker index -> whether its process exists.
        launcher: Whether the launcher that wrote the job's state is alive; None without one.
        now: Seconds since 1970 (UTC).
    """
    attempt = max(state.attempt for state in snapshot.workers) if snapshot.workers else 0
    attempt = attempt if snapshot.job is None else snapshot.job.attempt
    beside = lags(state for state in snapshot.workers if state.attempt == attempt)
    rows = [
        _row(state, presences.get(state.index, Presence.ELSEWHERE), beside.get(state.index), now)
        for state in snapshot.workers
    ]
    condition, reason = _condition(snapshot, rows, launcher, now)
    watched = launcher is Presence.ALIVE
    rows = [replace(row, remarks=_remarks(row, attempt, condition, watched=watched)) for row in rows]
    ended = attempt if condition is RunCondition.RESTARTING else attempt - 1
    failure = snapshot.failure if condition.is_over else snapshot.earlier.get(ended)
    interval = beat_seconds(len(rows))
    rows = sorted(rows, key=lambda row: _slowest_first(row, interval))
    return RunStatus(snapshot, now, condition, attempt, reason, failure, tuple(rows))


def _row(state: WorkerState, presence: Presence, lag: WorkerLag | None, now: float) -> WorkerStatus:
    quiet = max(0.0, now - (state.moved or state.time))
    return WorkerStatus(state, presence, quiet, max(0.0, now - state.time), lag, ())


def _remarks(row: WorkerStatus, attempt: int, condition: RunCondition, *, watched: bool) -> tuple[str, ...]:
    """What is unusual; of a run that is over, only what it left. Under a live launcher a state need not be fresh."""
    remarks = [f"of attempt {row.state.attempt}"] if row.state.attempt != attempt else []
    if row.state.state.is_last or condition.is_over:
        return tuple(remarks)
    if row.presence is Presence.GONE:
        remarks.append("its process is gone")
    elif row.presence is Presence.STOPPED:
        remarks.append("its process is stopped (SIGSTOP or Ctrl-Z)")
    elif row.state.limit is not None and row.quiet > row.state.limit:
        remarks.append(f"no progress for longer than {row.state.limit:g} s")
    elif row.presence is Presence.ELSEWHERE and row.silent > SILENT_SECONDS and not watched:
        remarks.append(f"no news for {format_duration(row.silent)}")
    if row.lag is not None and row.is_straggling:
        remarks.append(f"straggler: {100 * row.lag.slower:.0f} % slower, costs {format_duration(row.lag.cost)} a step")
    return tuple(remarks)


def _slowest_first(row: WorkerStatus, interval: float) -> tuple[int, float, float, int]:
    """Gone or stalled workers before running ones; among the stalled, who is behind first; then the slowest first.

    Args:
        interval: Seconds that its state may be old where its host has told it to the chief's.
    """
    state = row.state
    if state.state in (State.FINISHED, State.STOPPED):
        return 3, 0, 0, state.index
    if state.state is State.FAILED or row.presence in (Presence.GONE, Presence.STOPPED):
        return 0, state.step, 0, state.index
    if row.quiet > QUIET_SECONDS + interval:
        return 1, state.step, -row.quiet, state.index
    return 2, -state.busy, 0, state.index


_STOPPED = "somebody stopped it, by a signal"


def _condition(
    snapshot: Snapshot, rows: list[WorkerStatus], launcher: Presence | None, now: float
) -> tuple[RunCondition, str]:
    if snapshot.job is None or launcher is None:
        return _condition_of_workers(snapshot, rows)
    phase, age = snapshot.job.phase, now - snapshot.job.time
    if phase == JobPhase.DONE.value:
        return RunCondition.DONE, ""
    if phase == JobPhase.FAILED.value:
        if snapshot.failure is not None:
            return RunCondition.FAILED, ""
        settles = age < _SETTLING_SECONDS and launcher is not Presence.GONE
        return (RunCondition.STOPPING, "") if settles else (RunCondition.STOPPED, snapshot.stopped_by or _STOPPED)
    if launcher is Presence.GONE:
        process = f"pid {snapshot.job.pid} on {snapshot.job.host}"
        return RunCondition.DEAD, f"its launcher ({process}) is gone without having said how the run ended"
    if phase == JobPhase.RESTARTING.value:
        return RunCondition.RESTARTING, ""
    if phase == JobPhase.STOPPING.value:
        return RunCondition.STOPPING, ""
    return _condition_of_living(rows, launcher)


def _condition_of_workers(snapshot: Snapshot, rows: list[WorkerStatus]) -> tuple[RunCondition, str]:
    """Without a launcher's word: on a host without the chief, or before the workers start."""
    if rows and all(row.state.state is State.FINISHED for row in rows):
        return RunCondition.DONE, ""
    if snapshot.failure is not None:
        return RunCondition.FAILED, ""
    if rows and all(row.state.state.is_last for row in rows):
        return RunCondition.STOPPED, "its workers ended early, and none of them failed"
    return _condition_of_living(rows, None)


def _condition_of_living(rows: list[WorkerStatus], launcher: Presence | None) -> tuple[RunCondition, str]:
    living = [row for row in rows if not row.state.state.is_last]
    if not living:
        return RunCondition.STARTING, ""
    lost = [row for row in living if row.presence not in _THERE]
    lost = [row for row in lost if row.presence is Presence.GONE or row.silent > SILENT_SECONDS]
    if len(lost) == len(living) and launcher is not Presence.ALIVE:
        return RunCondition.DEAD, _why_dead(lost)
    limits = [row.state.limit for row in living if row.state.limit is not None]
    quiet = min(row.quiet for row in living)
    if limits and quiet > max(limits):
        text = f"no worker has made progress for {format_duration(quiet)}, longer than the limit of {max(limits):g} s"
        return RunCondition.HANGING, text
    if all(row.state.state is State.STARTING and not row.state.step for row in living):
        return RunCondition.STARTING, ""
    return RunCondition.RUNNING, ""


def _why_dead(lost: list[WorkerStatus]) -> str:
    silent = min(row.silent for row in lost)
    if all(row.presence is Presence.GONE for row in lost):
        return f"none of its processes exists any more; the newest state is {format_duration(silent)} old"
    hosts = ", ".join(sorted({row.state.host for row in lost if row.presence is Presence.ELSEWHERE}))
    age = f"no worker's state is newer than {format_duration(silent)}"
    return f"{age}; only {hosts} can tell whether its processes are alive"
