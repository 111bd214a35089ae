"""The record of one worker's failure, which workers and launchers write and send, and its wording.

A worker that an exception ends writes its `error_file`, with the fields of `ERROR_FIELDS`. Its launcher adds what it
knows of the process. The chief's launcher writes all fields of the job's first failure into the `failure_file`, with
the other failures as its `consequences`.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, Literal, Self

from tfdist.errors import ClusterError, DataError, WorkerFailedError
from tfdist.rundir.atomic_files import write_json
from tfdist.rundir.json_record import JsonRecord, is_finite

FailureKind = Literal["exception", "usage", "data", "signal", "memory", "exit", "start", "hang", "lost"]

ERROR_FIELDS = ("index", "host", "pid", "exit_code", "type", "message", "traceback", "time", "epoch", "step")
"""The fields of an `error_file`, in its order."""

_KINDS: dict[int, FailureKind] = {ClusterError.exit_code: "usage", DataError.exit_code: "data"}


def kind_of_error(exit_code: int) -> FailureKind:
    """The kind of the failure of a worker that an exception ended, by the code that it exits with."""
    return _KINDS.get(exit_code, "exception")


@dataclass(frozen=True)
class Failure(JsonRecord):
    """One worker's failure.

    Attributes:
        index: The worker's place in the cluster; 0 is the chief.
        host: Its machine's name.
        time: When it failed, in seconds since 1970 (UTC) by the clock of the machine that has the record.
        kind: `exception`, `usage` and `data` (by the worker's error file), `signal`, `memory` (the kernel killed it
            because memory was full), `exit` (it left while others needed it), `start` (its process could not be
            started), `hang` (no progress for too long), `lost` (its launcher or its machine is gone).
        message: What happened.
        address: Its host:port; None when there is one worker.
        pid: Its process id; None when it had none.
        exit_code: What the job exits with when this is its first failure.
        type: The exception's class, such as `ValueError` or `tfdist.errors.DataError`, or the signal's name; empty
            without either.
        traceback: The exception's traceback, or the stacks of a worker that hangs; empty without either.
        epoch: The epoch that it was in, from 0; None if it had not begun to train or evaluate, or that is unknown.
        step: Batches trained since the run began; None likewise.
        log: Path of its log on its machine; empty without one.
        last_lines: The end of its log, oldest line first.

    Raises:
        ValueError: A value has another type.
    """

    index: int
    host: str
    time: float
    kind: FailureKind
    message: str
    address: str | None = None
    pid: int | None = None
    exit_code: int = WorkerFailedError.exit_code
    type: str = ""
    traceback: str = ""
    epoch: int | None = None
    step: int | None = None
    log: str = ""
    last_lines: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "last_lines", tuple(self.last_lines))
        texts = [self.host, self.kind, self.message, self.type, self.traceback, self.log, *self.last_lines]
        texts += [] if self.address is None else [self.address]
        numbers = [number for number in (self.pid, self.epoch, self.step) if number is not None]
        numbers += [self.index, self.exit_code]
        are_texts = all(isinstance(text, str) for text in texts)
        if not are_texts or not is_finite(self.time) or not all(isinstance(number, int) for number in numbers):
            raise ValueError("expected texts for what happened and numbers for where")

    @classmethod
    def from_dict(cls, content: Any) -> Self:
        """See `JsonRecord.from_dict`. An error file has no kind, which follows from its exit code.

        Raises:
            RunDirError: A field is missing or has an impossible value.
        """
        if isinstance(content, dict) and "kind" not in content:
            code = content.get("exit_code")
            content = {**content, "kind": kind_of_error(code) if isinstance(code, int) else "exception"}
        return super().from_dict(content)

    def error_content(self) -> dict[str, Any]:
        """The content of the error file of a worker that an exception ends, in JSON's types."""
        return {name: getattr(self, name) for name in ERROR_FIELDS}

    def write_error(self, path: str | os.PathLike[str]) -> None:
        """Makes or replaces an error file, atomically; `read` reads it. Raises `RunDirError` when it cannot."""
        write_json(path, self.error_content())

    @property
    def who(self) -> str:
        """The worker, where it ran and its process: `worker 1 (host2, host2:20000, pid 812)`."""
        where = self.host if self.address is None else f"{self.host}, {self.address}"
        process = "" if self.pid is None else f", pid {self.pid}"
        return f"worker {self.index} ({where}{process})"

    @property
    def when(self) -> str:
        """The point in the training: `in epoch 3 after step 418`; empty if unknown, and before its first step."""
        return "" if not self.step else f"in epoch {(self.epoch or 0) + 1} after step {self.step}"

    @property
    def what(self) -> str:
        """The text of what happened. Errors of tfdist explain themselves; of other exceptions the class comes first."""
        return f"{self.type}: {self.message}" if self.kind == "exception" and self.type else self.message

    def what_in_line(self, max_characters: int | None = None) -> str:
        """Returns what happened, in one line of at most `max_characters`."""
        line = " ".join(self.what.split())
        if max_characters is None or len(line) <= max_characters:
            return line
        return line[: max_characters - 3] + "..."
