"""What a worker that failed leaves for its launcher, and what the launcher says of the job."""

from __future__ import annotations

from dataclasses import dataclass

from tfdist.rundir.json_record import JsonRecord


@dataclass(frozen=True)
class ErrorRecord(JsonRecord):
    """The exception that ended a worker; it lies in the run directory's `error_file`.

    Attributes:
        index: The worker's place in the cluster.
        host: The machine's own name.
        pid: The worker's process id on that machine.
        exit_code: What the worker exits with: the exception's own when it is a `TfdistError`.
        type: The exception's class, such as `ValueError` or `tfdist.errors.DataError`.
        message: Its text.
        traceback: The whole traceback as Python prints it.
        time: When it was caught, in seconds since 1970 (UTC).
        epoch: The epoch the worker was in, from 0; None when it had not begun to train or evaluate.
        step: The batches that it had trained since the run began; None likewise.
    """

    index: int
    host: str
    pid: int
    exit_code: int
    type: str
    message: str
    traceback: str
    time: float
    epoch: int | None = None
    step: int | None = None


@dataclass(frozen=True)
class JobState(JsonRecord):
    """Where in its life a job is; it lies in the run directory's `job_file`.

    Attributes:
        phase: A value of `tfdist.launch.agent.job_phases.JobPhase`.
        attempt: Which start of the workers this is, from 0.
        host: The machine of the launcher that says so.
        pid: That launcher's process id.
        time: When it said so, in seconds since 1970 (UTC).
    """

    phase: str
    attempt: int
    host: str
    pid: int
    time: float
