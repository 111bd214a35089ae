"""Run records: the states, phases, failures and ledger lines that a launcher writes into the run directory."""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from tfdist.errors import RunDirError
from tfdist.launch.environment import Assignment
from tfdist.launch.job_phases import JobPhase
from tfdist.launch.run_dir.run_location import RunLocation
from tfdist.launch.run_result import RunResult
from tfdist.rundir import ledger_lines
from tfdist.rundir.atomic_files import write_json
from tfdist.rundir.failure import Failure
from tfdist.rundir.layout import RunDir
from tfdist.rundir.ledger_lines import AttemptPhase
from tfdist.rundir.process_presence import start_ticks
from tfdist.rundir.regular_files import read_json
from tfdist.rundir.state_records import JobState, State, WorkerState
from tfdist.rundir.temp_names import remove_abandoned

_MAX_CHARACTERS = 300


def write_state(
    location: RunLocation, assignment: Assignment, pid: int, state: State, *, epoch: int = 0, step: int = 0
) -> None:
    """Writes the state of a worker that cannot do so itself, because it is starting or has ended.

    A temporary file that the worker left when it was killed is removed.

    Raises:
        RunDirError: It cannot be written.
    """
    file = location.run_dir.state_file(assignment.index)
    remove_abandoned(file)
    WorkerState(
        index=assignment.index,
        address=assignment.address,
        host=socket.gethostname(),
        pid=pid,
        attempt=assignment.attempt,
        state=state,
        epoch=epoch,
        step=step,
        time=time.time(),
        started=start_ticks(pid),
    ).write(file, durable=False)


def close_state(location: RunLocation, assignment: Assignment, state: State) -> None:
    """Writes the last state of a worker that could not write how it ended: `failed`, or `stopped` with its job.

    A disk that cannot be written is passed over.
    """
    with contextlib.suppress(RunDirError):
        last = WorkerState.read(location.run_dir.state_file(assignment.index))
        if last is not None and not last.state.is_last:
            # The assignment may be of an earlier attempt.
            ended = replace(assignment, attempt=last.attempt)
            write_state(location, ended, last.pid, state, epoch=last.epoch, step=last.step)


def write_failure(file: Path, failures: tuple[Failure, ...]) -> None:
    """Writes the first failure, and the others as its consequences, into a file of the run directory.

    Raises:
        RunDirError: It cannot be written.
    """
    first, *others = [failure.to_dict() for failure in failures]
    write_json(file, {**first, "consequences": others})


def read_failures(file: Path) -> tuple[Failure, ...]:
    """The failures that `write_failure` wrote, the first one first; none where there is no such file, or it is damaged.

    A damaged consequence is left out.
    """
    found: list[Failure] = []
    with contextlib.suppress(OSError, ValueError, RunDirError):
        content = read_json(file)
        found.append(Failure.from_dict(content))
        others = content.get("consequences")
        for other in others if isinstance(others, list) else ():
            with contextlib.suppress(RunDirError):
                found.append(Failure.from_dict(other))
    return tuple(found)


def write_phase(run: RunDir, phase: JobPhase, attempt: int) -> None:
    """Writes the phase that the job is in. A disk that cannot be written is passed over."""
    pid = os.getpid()
    record = JobState(phase.value, attempt, socket.gethostname(), pid, time.time(), start_ticks(pid))
    with contextlib.suppress(RunDirError):
        record.write(run.job_file, durable=False)


def change_phase(run: RunDir, phase: JobPhase) -> None:
    """Writes that the job, whose workers have ended, is in another phase; passes over a directory without one."""
    with contextlib.suppress(RunDirError):
        before = JobState.read(run.job_file)
        if before is not None:
            write_phase(run, phase, before.attempt)


class LauncherLedger:
    """Writes the start and the end of each attempt into the ledger. A disk that cannot be written is passed over.

    Args:
        file: The ledger; None for a launcher without the chief, which writes nothing.
        begun: When the job began, in seconds since 1970 (UTC); None where it goes on with one that is in the ledger.
    """

    def __init__(self, file: Path | None, begun: float | None) -> None:
        self._file = file
        self._begun = begun
        self._attempt = 0

    def running(self, attempt: int) -> None:
        """The workers of attempt number `attempt` are about to start."""
        self._attempt = attempt
        begun, self._begun = self._begun, None
        self._write(AttemptPhase.RUNNING, since=begun)

    def restarting(self, result: RunResult) -> None:
        """The attempt has ended, and there is another one."""
        self._write_end(AttemptPhase.RESTARTING, result)

    def over(self, result: RunResult) -> None:
        """The job has ended."""
        phase = AttemptPhase.STOPPED if result.stop else AttemptPhase.FAILED if result.failures else AttemptPhase.DONE
        self._write_end(phase, result, result.code)

    def _write_end(self, phase: AttemptPhase, result: RunResult, code: int | None = None) -> None:
        noticed = result.failures[0].time if result.failures else None
        self._write(phase, why=_why(result), step=result.step, noticed=noticed, code=code)

    def _write(self, phase: AttemptPhase, **more: Any) -> None:
        if self._file is not None:
            with contextlib.suppress(RunDirError):
                ledger_lines.append_entry(
                    self._file, ledger_lines.LedgerEvent(self._attempt, time.time(), phase, **more)
                )


def _why(result: RunResult) -> str:
    """Returns what ended an attempt, in one line; empty when its workers were done."""
    if result.stop is not None:
        return result.stop.why
    if not result.failures:
        return ""
    first = result.failures[0]
    return f"worker {first.index}: {first.what_in_line()}"[:_MAX_CHARACTERS]


class RemoteStates:
    """Writes the states that other launchers send.

    Args:
        run: The run directory on the leader's machine.
    """

    def __init__(self, run: RunDir, remote: Iterable[int]) -> None:
        self._run = run
        self._written: dict[int, WorkerState | None] = dict.fromkeys(remote)
        self._marks: dict[int, tuple[int, int]] = {}

    def write(self, states: Iterable[WorkerState]) -> None:
        """Writes those that are new. Where machines share the directory, the worker's own file is newer and stands."""
        for state in states:
            before = self._written.get(state.index, state)
            # Most of a large job have not changed since: the same object is not compared field by field.
            if before is not state and before != state:
                self._written[state.index] = state
                # If it cannot be written now, the next state will be.
                with contextlib.suppress(RunDirError, OSError):
                    self._write(state, before)

    def _write(self, state: WorkerState, before: WorkerState | None) -> None:
        file = self._run.state_file(state.index)
        if not self._is_own(file, state.index):
            there = None
            # A damaged file is replaced.
            with contextlib.suppress(RunDirError):
                there = WorkerState.read(file)
            # What this launcher wrote itself is older, whatever a clock says that was set back meanwhile.
            if there is not None and there != before and there.time >= state.time:
                return
        state.write(file, durable=False)
        self._marks[state.index] = _mark(file)

    def _is_own(self, file: Path, index: int) -> bool:
        """Returns whether the file is the one that this launcher wrote last, which need not be read then."""
        try:
            return self._marks.get(index) == _mark(file)
        except OSError:
            return False


def _mark(file: Path) -> tuple[int, int]:
    """By what a file is known: it is never changed, but replaced."""
    status = os.stat(file)
    return status.st_ino, status.st_mtime_ns
