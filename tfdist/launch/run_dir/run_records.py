"""What a launcher writes into the run directory for its workers, and reads of what they left there."""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from tfdist.errors import RunDirError
from tfdist.launch.agent.failure_diagnosis import from_error, from_signal
from tfdist.launch.agent.job_phases import JobPhase
from tfdist.launch.agent.oom_detection import OomKillCount
from tfdist.launch.environment import Assignment
from tfdist.launch.run_dir.run_location import RunLocation
from tfdist.launch.worker.worker_handle import Worker, process_facts
from tfdist.rundir.atomic_files import write_json
from tfdist.rundir.failure import Failure
from tfdist.rundir.job_state import JobState
from tfdist.rundir.temp_names import remove_abandoned
from tfdist.rundir.worker_state import State, WorkerState


class ExitDiagnosis:
    """What an ended worker's exit code and error file say.

    Args:
        place: Where the job writes.
        count: Counts the kernel's kills for want of memory.
    """

    def __init__(self, place: RunLocation, count: Callable[[], OomKillCount] = OomKillCount.now) -> None:
        self._place = place
        self._count = count
        self._kills: dict[int, OomKillCount] = {}

    def begins(self, index: int) -> None:
        """A worker is about to start: what the kernel has killed before has nothing to do with it."""
        self._kills[index] = self._count()

    def __call__(self, worker: Worker, code: int) -> Failure | None:
        """The failure of a worker that ended with `code`; None when it left by itself or by the launcher's will."""
        record = self._record(worker)
        if record is not None:
            return from_error(record, **process_facts(worker))
        if code < 0 and not worker.ended_by_launcher:
            killed = self._kills[worker.index].grew(self._count())
            return from_signal(worker.index, -code, out_of_memory=killed, **process_facts(worker))
        return None

    def _record(self, worker: Worker) -> Failure | None:
        try:
            if worker.told is not None:
                return Failure.from_dict(worker.told)
            return Failure.read(self._place.run_dir.error_file(worker.index, worker.attempt))
        except RunDirError:
            # Cut short, by a full disk say: then the exit code alone has to tell.
            return None


def write_state(
    place: RunLocation, assignment: Assignment, pid: int, state: State, *, epoch: int = 0, step: int = 0
) -> None:
    """Writes the state of a worker that cannot do so itself: not yet, or not any more.

    What a worker that was killed meanwhile has left of its own writing is removed.

    Raises:
        RunDirError: It cannot be written.
    """
    file = place.run_dir.state_file(assignment.index)
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
    ).write(file, durable=False)


def close_state(place: RunLocation, assignment: Assignment) -> None:
    """Says `failed` for a worker that could not say how it ended; the report must come whatever the disk does."""
    with contextlib.suppress(RunDirError):
        last = WorkerState.read(place.run_dir.state_file(assignment.index))
        if last is not None and last.state not in (State.FINISHED, State.FAILED):
            # The assignment may be that of an attempt before.
            ended = replace(assignment, attempt=last.attempt)
            write_state(place, ended, last.pid, State.FAILED, epoch=last.epoch, step=last.step)


def write_failure(file: Path, failures: tuple[Failure, ...]) -> None:
    """Writes the first failure, and the others as its consequences, into a file of the run directory."""
    first, *others = [failure.to_dict() for failure in failures]
    try:
        write_json(file, {**first, "consequences": others})
    except RunDirError as error:
        print(f"tfdist: the failure record could not be written: {error}", file=sys.stderr)


def write_phase(place: RunLocation, phase: JobPhase, attempt: int) -> None:
    """Writes where in its life the job is; a disk that takes nothing must not end it."""
    record = JobState(phase.value, attempt, socket.gethostname(), os.getpid(), time.time())
    with contextlib.suppress(RunDirError):
        record.write(place.run_dir.job_file, durable=False)
