"""Run location: the job's run directory, seed and attempt. The chief's launcher makes it, the others join it.

What is known of an attempt whose launcher was killed, for the ledger: its last lines were never written.

The workers end with their launcher. Until then the chief has kept its state file, once a second.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tfdist.errors import FormingError, RunDirError
from tfdist.rundir.atomic_files import write_json
from tfdist.rundir.layout import RunDir
from tfdist.rundir.ledger_lines import (
    AttemptPhase,
    LedgerEntry,
    LedgerEvent,
    LedgerInterval,
    TimeKind,
    append_entry,
    read_further,
)
from tfdist.rundir.regular_files import read_json
from tfdist.rundir.run_dir_creation import Resume, create_run_dir, join_run_dir, next_attempt
from tfdist.rundir.state_records import State, WorkerState, completed_epochs

_SEEDS = 2**31
_END_OF_SEEDS = 2**63
"""A run directory may have the seed of a config, which may be greater than those that are drawn."""
_LOCK_SECONDS = 10.0
VISIBLE_SECONDS = 3.0
"""Seconds that a shared file system may take to show this host what the chief's host has written."""
_RETRY_SECONDS = 0.1
_MOST_BYTES = 1 << 20
"""Of the end of the ledger: the lines of the last attempt's end."""


@dataclass(frozen=True)
class RunLocation:
    """The place that a job writes to, and what its workers have in common, as one launcher sees it.

    Attributes:
        run_dir: The run directory on this machine.
        shown: The same, as the user or the chief's launcher wrote it; other hosts look for it by this name.
        seed: The run's seed.
        attempt: Starts of the workers before this one.
        job: Different for every job; a launcher recognizes a shared directory by it.
        writes_failure: Whether this launcher writes the failure record, which one launcher of a directory does.
        completed: The epochs of a run that has nothing left to train, and is left as it is; 0 for one that is to train.
    """

    run_dir: RunDir
    shown: str
    seed: int
    attempt: int
    job: str
    writes_failure: bool
    completed: int = 0

    def go(self) -> dict[str, Any]:
        """Returns what the chief's launcher sends to the others."""
        said = {"run_dir": self.shown, "seed": self.seed, "attempt": self.attempt, "job": self.job}
        return {**said, "completed": self.completed}


def create_run_location(
    run_dir: str | None,
    *,
    name: str,
    overwrite: bool,
    seed: int | None,
    resume: Resume = "never",
    epochs: int | None = None,
) -> RunLocation:
    """Creates a job's run directory, and draws its seed when none is given. For the chief's launcher alone.

    A run that is resumed keeps its seed, and its attempts are counted on. Where it has trained `epochs` before, its
    directory stays as it is.

    Args:
        run_dir: `--run-dir`; None for a new one in `runs/`.
        overwrite: Whether an earlier run is replaced.
        seed: The run's seed; None to draw one.
        epochs: How many the run is to have in all; None where that is not known.

    Raises:
        RunDirError: The directory holds another run, cannot be made or written, or has no run to resume.
    """
    if epochs is not None and run_dir is not None and resume != "never" and not overwrite:
        run = RunDir(Path(run_dir))
        completed = completed_epochs(run)
        if completed >= epochs:
            return RunLocation(run, run_dir, seed or 0, 0, "", False, completed)
    # Read before the states of the earlier start are removed.
    unwritten = [] if run_dir is None or resume == "never" else lines_of_killed(RunDir(Path(run_dir)))
    run = create_run_dir(run_dir, name=name, overwrite=overwrite, resume=resume)
    for line in unwritten:
        append_entry(run.ledger_file, line)
    if seed is None:
        seed = _seed_before(run)
    job = secrets.token_hex(8)
    _mark(run, job, seed=seed)
    shown = os.path.relpath(run.path) if run_dir is None else run_dir
    return RunLocation(run, shown, seed, 0 if resume == "never" else next_attempt(run), job, True)


def join_run_location(
    go: dict[str, Any],
    run_dir: str | None,
    *,
    name: str,
    overwrite: bool,
    resume: Resume = "never",
    patience: float = VISIBLE_SECONDS,
) -> RunLocation:
    """The location for a launcher without the chief: the chief's directory if shared, else one of the same name.

    Args:
        run_dir: `--run-dir` as given on this host; None takes the chief's name for it.
        overwrite: Whether an earlier run is replaced.
        resume: Whether an earlier run is resumed. Its checkpoints are on the chief's host, not here.
        patience: Seconds in which a shared directory must show that it is this job's.

    Raises:
        FormingError: `go` is not what this version sends.
        RunDirError: The directory holds another run, or cannot be made or written.
    """
    try:
        shown = str(run_dir or go["run_dir"])
        seed, attempt, job = int(go["seed"]), int(go["attempt"]), str(go["job"])
        completed = int(go["completed"])
        if "\0" in shown or seed < 0 or attempt < 0 or completed < 0:
            raise ValueError("no file has such a name, and no run such numbers")
    except (KeyError, TypeError, ValueError, OverflowError):
        raise FormingError(
            f"Expected a run directory, a seed and a job from the chief's launcher. Received: {go!r}. "
            "Install the same version of tfdist on every host."
        ) from None
    run = RunDir(Path(shown))
    if completed:
        return RunLocation(run, shown, seed, attempt, job, False, completed)
    # Two launchers of one machine may make a directory at once that they share, but not with the chief.
    with _locked(run.path):
        shared = _is_of(run, job, patience)
        if shared:
            join_run_dir(shown, name=name)
        else:
            create_run_dir(shown, name=name, overwrite=overwrite, resume="never" if resume == "never" else "auto")
            _mark(run, job)
    return RunLocation(run, shown, seed, attempt, job, not shared)


def _mark(run: RunDir, job: str, **more: Any) -> None:
    record = _record(run) or {}
    write_json(run.run_file, {**record, "job": job, **more})


def _seed_before(run: RunDir) -> int:
    """The seed that an earlier start of the run drew; a new one in a new run directory."""
    seed = (_record(run) or {}).get("seed")
    if isinstance(seed, int) and not isinstance(seed, bool) and 0 <= seed < _END_OF_SEEDS:
        return seed
    return secrets.randbelow(_SEEDS)


def _is_of(run: RunDir, job: str, patience: float) -> bool:
    """Returns whether the directory is this job's, as it shows within `patience` seconds."""
    deadline = time.monotonic() + patience
    while (record := _record(run)) is not None and record.get("job") != job:
        if time.monotonic() > deadline:
            return False
        time.sleep(_RETRY_SECONDS)
    return record is not None


def _record(run: RunDir) -> dict[str, Any] | None:
    try:
        record = read_json(run.run_file)
    except (OSError, ValueError):
        return None
    return record if isinstance(record, dict) else None


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Keeps other launchers of this machine from making the same directory at the same time."""
    parent = path.parent
    try:
        parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(parent, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise RunDirError(
            f"The run directory {path} cannot be made: {error}. Expected a place that can be written on this host. "
            "Choose another --run-dir."
        ) from error
    try:
        deadline = time.monotonic() + _LOCK_SECONDS
        # A file system without locks does not stop the run; the race, which is rare, stays open.
        with contextlib.suppress(OSError):
            while not _try_lock(descriptor) and time.monotonic() < deadline:
                time.sleep(_RETRY_SECONDS)
        yield
    finally:
        os.close(descriptor)


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def lines_of_killed(run: RunDir) -> list[LedgerEntry]:
    """The lines that the ledger of a run lacks of its last attempt; none where its launcher has ended it.

    From the last line on, the steps that the state tells of count as training, with all that lay between them. A ledger
    that cannot be read has none.

    Args:
        run: The run, which no launcher holds, with the states of its last start.
    """
    try:
        entries, _ = read_further(run.ledger_file, max(0, run.ledger_file.stat().st_size - _MOST_BYTES))
    except (OSError, RunDirError):
        return []
    events = [entry for entry in entries if isinstance(entry, LedgerEvent)]
    state = _state(run)
    if not entries or (events and events[-1].phase is not AttemptPhase.RUNNING) or state is None:
        return []
    attempt = entries[-1].attempt
    if state.attempt != attempt or state.state is State.FINISHED:
        return []
    lines: list[LedgerEntry] = []
    did = [entry for entry in entries if isinstance(entry, LedgerInterval) and entry.attempt == attempt]
    at = max(entries[-1].at, state.moved)
    if did and state.step > did[-1].step and state.moved > did[-1].at:
        seconds = {TimeKind.STEP.value: round(state.moved - did[-1].at, 6)}
        lines.append(
            LedgerInterval(attempt, did[-1].at, state.moved, seconds, state.step - did[-1].step, state.step)
        )
    lines.append(LedgerEvent(attempt, at, AttemptPhase.FAILED, why="its launcher was killed", step=state.step))
    return lines


def _state(run: RunDir) -> WorkerState | None:
    try:
        return WorkerState.read(run.state_file(0))
    except RunDirError:
        # A host that failed may have left half of it.
        return None
