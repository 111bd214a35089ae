"""Run records: the states, phases and failures that a launcher writes into the run directory."""

from __future__ import annotations

import contextlib
import os
import socket
import time
from dataclasses import replace
from pathlib import Path

from tfdist.errors import RunDirError
from tfdist.launch.environment import Assignment
from tfdist.launch.job_phases import JobPhase
from tfdist.launch.run_dir.run_location import RunLocation
from tfdist.rundir.atomic_files import write_json
from tfdist.rundir.failure import Failure
from tfdist.rundir.job_state_record import JobState
from tfdist.rundir.layout import RunDir
from tfdist.rundir.process_presence import start_ticks
from tfdist.rundir.regular_files import read_json
from tfdist.rundir.temp_names import remove_abandoned
from tfdist.rundir.worker_state_record import State, WorkerState


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
