"""Stops a run from outside of it: finds its launcher by the run directory, asks it to stop, and waits."""

from __future__ import annotations

import enum
import os
import select
import shlex
import signal
import socket
import time
from dataclasses import dataclass
from pathlib import Path

from tfdist.errors import RunDirError, UsageError, WorkerFailedError
from tfdist.launch.job_phases import JobPhase
from tfdist.rundir.layout import RunDir
from tfdist.rundir.process_presence import Presence, presence, start_ticks
from tfdist.rundir.run_snapshot import Snapshot, read_run
from tfdist.rundir.state_records import JobState

AT_ONCE_SECONDS = 20.0
"""Seconds that a launcher which was asked twice may take: it ends its workers where they are."""
_OVER = (JobPhase.DONE.value, JobPhase.FAILED.value)
_KILL_SECONDS = 5.0


class StopMeans(enum.Enum):
    """The means that it took to end a run, the mildest first."""

    ASKED = "it stopped after a step"
    ASKED_AGAIN = "its workers were ended where they were"
    KILLED = "its launcher was killed"


@dataclass(frozen=True)
class StoppedRun:
    """A run that was stopped.

    Attributes:
        run: Its directory.
        step: The last step that a worker has said it was at.
        seconds: How long it took.
        how: How it ended.
        has_checkpoints: Whether it has left checkpoints here.
    """

    run: RunDir
    step: int
    seconds: float
    how: StopMeans
    has_checkpoints: bool


class _Process:
    """The launcher, held by a descriptor, which no later process can have."""

    def __init__(self, pid: int) -> None:
        self._descriptor = os.pidfd_open(pid)

    def send(self, number: signal.Signals) -> None:
        signal.pidfd_send_signal(self._descriptor, number)

    def has_ended(self, seconds: float) -> bool:
        """Returns whether it ends within so many seconds."""
        poller = select.poll()
        poller.register(self._descriptor, select.POLLIN)
        return bool(poller.poll(seconds * 1000))

    def close(self) -> None:
        os.close(self._descriptor)


def stop_run(run_dir: str, seconds: float) -> StoppedRun:
    """Stops a run whose launcher is on this host.

    Args:
        seconds: How long it may take to stop after a step; then its workers are ended where they are.

    Raises:
        RunDirError: There is no run in the directory.
        UsageError: It is over, or has not begun; or its launcher is on another host, or another user's.
        WorkerFailedError: It is still there.
    """
    run = RunDir(Path(run_dir))
    process = _open(run, read_run(run))
    begun = time.monotonic()
    try:
        how = _end(run, process, seconds)
    finally:
        process.close()
    after = read_run(run)
    step = max((state.step for state in after.workers), default=0)
    return StoppedRun(run, step, time.monotonic() - begun, how, any(run.checkpoints_dir.glob("*")))


def _end(run: RunDir, process: _Process, seconds: float) -> StopMeans:
    patience = {
        StopMeans.ASKED: (signal.SIGTERM, seconds),
        StopMeans.ASKED_AGAIN: (signal.SIGTERM, AT_ONCE_SECONDS),
        StopMeans.KILLED: (signal.SIGKILL, _KILL_SECONDS),
    }
    for means, (number, bound) in patience.items():
        try:
            process.send(number)
        except ProcessLookupError:
            return means
        except PermissionError:
            raise UsageError(
                f"The launcher of {run} belongs to another user. Expected one of yours. Ask its owner, or root."
            ) from None
        if process.has_ended(bound):
            return means
    raise WorkerFailedError(f"The launcher of {run} is still there after SIGKILL: it waits in the kernel, for a disk.")


def _open(run: RunDir, snapshot: Snapshot) -> _Process:
    job = snapshot.job
    if job is None:
        raise UsageError(
            f"{run} does not say which launcher runs it: it has not begun, or this is not the host of its chief. "
            "Expected the run directory there. Say `tfdist stop` on the host of worker 0."
        )
    if job.phase in _OVER:
        raise UsageError(f"The run in {run} is over ({job.phase}). There is nothing to stop.")
    there = presence(job.host, job.pid, job.time, job.started)
    if there is Presence.ELSEWHERE:
        raise UsageError(
            f"The launcher of {run} runs on {job.host}, and this is {socket.gethostname()}. Expected to be on the same "
            f"host. Say there: ssh {job.host} tfdist stop {shlex.quote(str(run))}"
        )
    if there is Presence.GONE:
        raise _gone(run, job)
    try:
        process = _Process(job.pid)
    except OSError:
        raise _gone(run, job) from None
    # Only now it is certain that no other process has got its number.
    if job.started is not None and start_ticks(job.pid) != job.started:
        process.close()
        raise _gone(run, job)
    return process


def _gone(run: RunDir, job: JobState) -> RunDirError:
    return RunDirError(
        f"The launcher of {run} (pid {job.pid} on {job.host}) is gone without having said how the run ended, and its "
        "workers end without it. There is nothing to stop."
    )
