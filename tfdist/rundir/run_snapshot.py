"""Snapshot of a run: reads all records of its directory, which may be replaced meanwhile."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from tfdist.errors import RunDirError
from tfdist.rundir.failure import Failure
from tfdist.rundir.json_record import JsonRecord, is_finite
from tfdist.rundir.layout import RunDir
from tfdist.rundir.ledger_lines import AttemptPhase, LedgerEvent, read_further
from tfdist.rundir.regular_files import read_json
from tfdist.rundir.run_dir_creation import DEFAULT_PARENT
from tfdist.rundir.state_records import JobState, WorkerState

_STATE = re.compile(r"worker-([0-9]{1,5})\.json")
"""With more digits it is no worker's: those that left nothing are listed up to the greatest index."""
_LOG = re.compile(r"worker-([0-9]{1,5})\.([0-9]{1,9})\.log")
_LAST_LINES_BYTES = 1 << 16
_ATTEMPTS = 3
"""Times that a file is read: on a network file system, one that was replaced meanwhile may be stale."""

AnyRecord = TypeVar("AnyRecord", bound=JsonRecord)


@dataclass(frozen=True)
class Snapshot:
    """The records of a run directory.

    Attributes:
        run: The directory.
        name: The run's name; empty if unknown.
        created: When the run began, in seconds since 1970 (UTC); None if unknown.
        job: The state of its job; None before the workers start, and if the directory is not the chief's.
        workers: The states of the workers, in the order of their indices.
        unreadable: Index -> the error, for workers whose state is damaged or absent.
        absent: Workers that left nothing here, because their machines have directories of their own.
        failure: What ended the run; None if nothing did, or the record is damaged.
        earlier: Attempt -> what ended it, of the current attempt and the one before if another one followed.
        stopped_by: Who or what stopped it, in words, as its ledger has it; empty where nobody did.
    """

    run: RunDir
    name: str
    created: float | None
    job: JobState | None
    workers: tuple[WorkerState, ...]
    unreadable: dict[int, str]
    absent: tuple[int, ...]
    failure: Failure | None
    earlier: dict[int, Failure]
    stopped_by: str = ""


def read_run(run: RunDir) -> Snapshot:
    """Reads all records. One worker's damaged record does not affect the others.

    Raises:
        RunDirError: The directory is not a run's, or cannot be read.
    """
    record = _run_record(run)
    states: dict[int, WorkerState] = {}
    unreadable: dict[int, str] = {}
    job = _record_or_none(JobState, run.job_file)
    with_state = {int(match[1]) for match in _names(run.state_dir, _STATE)}
    for index in with_state | _with_log(run, job):
        try:
            states[index] = _worker_state(run.state_file(index), index)
        except RunDirError as error:
            unreadable[index] = str(error)
    known = states.keys() | unreadable.keys()
    created = record.get("created")
    return Snapshot(
        run=run,
        name=str(record.get("name", "")),
        created=float(created) if is_finite(created) else None,
        job=job,
        workers=tuple(states[index] for index in sorted(states)),
        unreadable=dict(sorted(unreadable.items())),
        absent=tuple(index for index in range(max(known, default=-1)) if index not in known),
        failure=_record_or_none(Failure, run.failure_file),
        earlier=_earlier_failures(run, job),
        stopped_by=_stopped_by(run),
    )


def _stopped_by(run: RunDir) -> str:
    """Returns what the last line of the ledger says of a stop."""
    try:
        entries, _ = read_further(run.ledger_file, max(0, run.ledger_file.stat().st_size - _LAST_LINES_BYTES))
    except (OSError, RunDirError):
        return ""
    last = entries[-1] if entries else None
    return last.why if isinstance(last, LedgerEvent) and last.phase is AttemptPhase.STOPPED else ""


def _run_record(run: RunDir) -> dict[str, object]:
    try:
        record = read_json(run.run_file)
    except (FileNotFoundError, NotADirectoryError):
        raise RunDirError(_no_run(run)) from None
    except (OSError, ValueError) as error:
        if isinstance(error, PermissionError):
            raise RunDirError(f"The run directory {run} cannot be read: {error}.") from error
        return {}
    return record if isinstance(record, dict) else {}


def _no_run(run: RunDir) -> str:
    found = "nothing of that name" if not run.path.exists() else "a directory" if run.path.is_dir() else "a file"
    runs = runs_below(run.path) or runs_below(run.path / DEFAULT_PARENT)
    hint = f" The newest run in it is {runs[-1]}." if runs else " `tfdist train` says its run directory at the start."
    return (
        f"{run} is not a run directory. Expected a directory that `tfdist train` made, which holds state/run.json. "
        f"Received: {found}.{hint}"
    )


def runs_below(path: Path) -> list[Path]:
    """Run directories in a directory, the newest last."""
    files: list[tuple[float, Path]] = []
    for file in path.glob("*/state/run.json") if path.is_dir() else ():
        try:
            files.append((file.stat().st_mtime, file))
        except OSError:
            continue  # removed meanwhile
    return [RunDir(file.parent.parent).path for _, file in sorted(files)]


def _with_log(run: RunDir, job: JobState | None) -> set[int]:
    """The workers that have a log of the newest attempt: an earlier one may have had others."""
    found = [(int(match[1]), int(match[2])) for match in _names(run.logs_dir, _LOG)]
    newest = max((attempt for _, attempt in found), default=0) if job is None else job.attempt
    return {index for index, attempt in found if attempt == newest}


def _names(directory: Path, pattern: re.Pattern[str]) -> list[re.Match[str]]:
    try:
        names = [entry.name for entry in directory.iterdir()]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise RunDirError(f"{directory} cannot be read: {error}.") from error
    return [match for name in names if (match := pattern.fullmatch(name))]


def _worker_state(file: Path, index: int) -> WorkerState:
    state = _patiently(lambda: WorkerState.read(file))
    if state is None:
        raise RunDirError(f"{file} is not there.")
    if state.index != index:
        raise RunDirError(f"{file} is the state of worker {state.index}.")
    return state


def _earlier_failures(run: RunDir, job: JobState | None) -> dict[int, Failure]:
    attempts = () if job is None else (job.attempt - 1, job.attempt)
    records = {attempt: _record_or_none(Failure, run.attempt_failure_file(attempt)) for attempt in attempts}
    return {attempt: record for attempt, record in records.items() if record is not None}


def _record_or_none(kind: type[AnyRecord], file: Path) -> AnyRecord | None:
    try:
        return _patiently(lambda: kind.read(file))
    except RunDirError:
        return None


def _patiently(read: Callable[[], AnyRecord | None]) -> AnyRecord | None:
    for _ in range(_ATTEMPTS - 1):
        try:
            return read()
        except RunDirError:
            continue
    return read()
