"""Records of states: a worker's, which it writes itself, the job's, which its launcher writes, and a run's end."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any

from tfdist.rundir.atomic_files import write_json
from tfdist.rundir.json_record import JsonRecord, is_finite
from tfdist.rundir.layout import RunDir
from tfdist.rundir.regular_files import read_json
from tfdist.text import format_count


class State(enum.StrEnum):
    """The life of one worker process.

    ::

        starting -> compiling -> step <-> callback, evaluating, saving -> finished

    Every state but `finished` can go to `failed`, and to `stopped`, where somebody stopped the job. A script may go
    from any of them to any other: it evaluates before it trains, or trains twice. `starting` is everything outside of
    `fit`, `evaluate` and `predict`, but for `exchanging`: a collective that the script calls there. `compiling` lasts
    until the first step of one of them is done; `evaluating` is `evaluate` and `predict`, inside of `fit` too.
    """

    STARTING = "starting"
    COMPILING = "compiling"
    STEP = "step"
    EXCHANGING = "exchanging"
    CALLBACK = "callback"
    EVALUATING = "evaluating"
    SAVING = "saving"
    FINISHED = "finished"
    FAILED = "failed"
    STOPPED = "stopped"

    @property
    def is_last(self) -> bool:
        """True if the worker has ended."""
        return self in (State.FINISHED, State.FAILED, State.STOPPED)


@dataclass(frozen=True)
class WorkerState(JsonRecord):
    """One worker at one moment.

    Attributes:
        index: The worker's place in the cluster; 0 is the chief.
        address: `host:port` in the cluster; None in a run of one worker, which has no cluster.
        host: The machine's own name.
        pid: The worker's process id on that machine.
        attempt: Which start of the worker this is, from 0.
        state: What it is doing; a `State` or its value.
        epoch: The epoch it is in, from 0.
        step: Batches done since the run began, over epochs and attempts.
        time: When this was written, in seconds since 1970 (UTC).
        moves: Batches of any kind, callbacks and changes of state so far: it grows as long as there is progress.
        moved: When it last grew, in seconds since 1970 (UTC).
        limit: Seconds without progress after which the worker hangs; None if it may take any time.
        rate: Samples of the global batch per second over the last steps; 0 while unknown.
        busy: Seconds a step that this worker takes for itself, without waiting for the others, over the last steps; 0
            while unknown.
        begun: Batches begun since the run began: more than `step` while batches run, of which one execution may have
            several; 0 while unknown.
        step_seconds: Seconds that a step takes in all over the last steps, of which `busy` is a part; 0 while unknown.
        started: When its process started, by `process_presence.start_ticks` of that machine; None where unknown.
        calls: How often it has begun a `fit`, `evaluate` or `predict`, those inside of another one not counted.
        call: Which of them it is in, the outermost; empty outside of them.

    Raises:
        ValueError: `state` is none of `State`.
    """

    index: int
    address: str | None
    host: str
    pid: int
    attempt: int
    state: State
    epoch: int
    step: int
    time: float
    moves: int = 0
    moved: float = 0.0
    limit: float | None = None
    rate: float = 0.0
    busy: float = 0.0
    begun: int = 0
    step_seconds: float = 0.0
    started: int | None = None
    calls: int = 0
    call: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "state", State(self.state))

    def check(self) -> None:
        counts = [self.index, self.pid, self.attempt, self.epoch, self.step, self.moves, self.begun, self.calls]
        counts += [] if self.started is None else [self.started]
        numbers = [self.time, self.moved, self.rate, self.busy, self.step_seconds]
        numbers += [] if self.limit is None else [self.limit]
        are_texts = isinstance(self.host, str) and isinstance(self.address, str | None) and isinstance(self.call, str)
        if not are_texts or not all(isinstance(count, int) for count in counts) or not all(map(is_finite, numbers)):
            raise ValueError("expected texts for where it runs and numbers for how far it is")

    def to_dict(self) -> dict[str, Any]:
        return dict(vars(self))

    @property
    def is_forming(self) -> bool:
        """True if it waits for TensorFlow to form the cluster, the only part of `starting` that has a limit."""
        return self.state is State.STARTING and self.limit is not None


@dataclass(frozen=True)
class JobState(JsonRecord):
    """The phase that a job is in, as the run directory's `job_file` has it.

    Attributes:
        phase: A value of `tfdist.launch.job_phases.JobPhase`.
        attempt: Which start of the workers this is, from 0.
        host: The machine of the launcher that writes it.
        pid: That launcher's process id.
        time: When it was written, in seconds since 1970 (UTC).
        started: When that process started, by `process_presence.start_ticks`; None where unknown.
    """

    phase: str
    attempt: int
    host: str
    pid: int
    time: float
    started: int | None = None

    def check(self) -> None:
        are_texts = isinstance(self.phase, str) and isinstance(self.host, str)
        counts = (self.pid, self.attempt, *(() if self.started is None else (self.started,)))
        if not are_texts or not all(isinstance(count, int) for count in counts):
            raise ValueError("expected texts for the phase and the host, and whole numbers for the rest")
        if self.attempt < 0 or not is_finite(self.time):
            raise ValueError("expected an attempt from 0 and a time")


def completed_epochs(run: RunDir) -> int:
    """The epochs of a run that has trained all that it was to train, and saved its model; 0 for any other."""
    return _noted(run, "epochs") if run.model_file.exists() else 0


def note_completion(run: RunDir, epochs: int, trained: int | None = None) -> None:
    """Notes that a run is done and has saved its model.

    Args:
        trained: How many it has, if not as many: fewer where a callback has stopped it, more where it was resumed to
            train less than it already had.

    Raises:
        RunDirError: It cannot be written.
    """
    trained = epochs if trained is None else trained
    write_json(run.done_file, {"epochs": max(epochs, trained), "trained": trained})


def trained_text(epochs: int, trained: int, size: str) -> str:
    """Returns what a run says that has ended: how much it has trained.

    Args:
        trained: How many it has; see `note_completion`.
        size: What an epoch has, such as `1,437 samples`.
    """
    asked, of = format_count(epochs, "epoch"), f"of {size}"
    if trained < epochs:
        return f"stopped by a callback after {trained} of {asked} {of}"
    if trained > epochs:
        return f"{format_count(trained, 'epoch')} {of}; nothing was left to train (fit.epochs: {epochs})"
    return f"{asked} {of}"


def completion_text(name: str, epochs: int, run: RunDir | None) -> str:
    """Returns what a run says that has nothing left to train.

    Args:
        run: Its directory, with the model; None on a host that does not have it.
    """
    model = "" if run is None else f" model {run.model_file}"
    trained = epochs if run is None else _noted(run, "trained") or epochs
    if trained < epochs:
        return f"{name}: was done before; a callback had stopped it after {trained} of {epochs} epochs.{model}"
    return f"{name}: was done before, {epochs} epochs; nothing to train (for more: --set fit.epochs=N).{model}"


def _noted(run: RunDir, name: str) -> int:
    try:
        epochs = read_json(run.done_file)[name]
    except (OSError, ValueError, KeyError, TypeError):
        return 0
    return max(0, epochs) if isinstance(epochs, int) else 0
