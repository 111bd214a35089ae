"""What a worker that failed leaves for its launcher."""

from __future__ import annotations

from dataclasses import dataclass

from tfdist.rundir.record import Record


@dataclass(frozen=True)
class ErrorRecord(Record):
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
    """

    index: int
    host: str
    pid: int
    exit_code: int
    type: str
    message: str
    traceback: str
    time: float
