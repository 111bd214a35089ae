"""What ended a worker, and which of several failures was first."""

from __future__ import annotations

import dataclasses
import signal
import socket
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from tfdist.errors import ClusterError, DataError, FormingError, TfdistError, WorkerFailedError
from tfdist.rundir.job_state import ErrorRecord

FailureKind = Literal["exception", "usage", "data", "signal", "memory", "exit", "start", "hang", "lost"]

WAITING = "waiting"
"""The type of a hang's failure of those workers that only wait for another one."""

# How a worker ends when another one is gone, by TensorFlow's exceptions, by tfdist's for them, or because TensorFlow's
# coordination aborts it: the consequence of a failure, seldom the first.
_CONSEQUENCES = (
    "UnavailableError",
    "AbortedError",
    "CancelledError",
    "DeadlineExceededError",
    WorkerFailedError.__name__,
    signal.SIGABRT.name,
    WAITING,
)
_KINDS: dict[int, FailureKind] = {ClusterError.exit_code: "usage", DataError.exit_code: "data"}
_OWN_CODES = (ClusterError.exit_code, FormingError.exit_code, DataError.exit_code)


@dataclass(frozen=True)
class Failure:
    """One worker's failure; goes to JSON and back.

    Attributes:
        index: The worker.
        host: Its machine's name.
        time: When, in seconds since 1970 by that machine's clock.
        kind: `exception`, `usage` and `data` (an error file tells), `signal`, `memory` (the kernel killed it, for the
            machine's memory was full), `exit` (it left while others needed it), `start` (its process could not be
            started), `hang` (nothing moved for too long), `lost` (its launcher's machine is gone).
        message: What happened.
        address: Its host:port; None when there is one worker.
        pid: Its process id; None when it had none.
        exit_code: What the job exits with when this is its first failure.
        type: The exception's class, or the signal's name; empty without either.
        traceback: The exception's traceback, or the stacks of a worker that hangs; empty without either.
        epoch: The epoch that it was in, from 0; None when it never said.
        step: Batches trained since the run began; None when it never said.
        log: Path of its log, on its machine.
        last_lines: The end of its log, oldest line first.
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

    @property
    def is_consequence(self) -> bool:
        """Whether this is how a worker fails because another one did."""
        return self.type.rpartition(".")[2] in _CONSEQUENCES

    def to_json(self) -> dict[str, Any]:
        """A value that `json.dumps` takes."""
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, value: Any) -> Failure:
        """The failure that another launcher sent.

        Raises:
            ValueError: The value is not one.
        """
        try:
            return cls(**{**value, "last_lines": tuple(value["last_lines"])})
        except (TypeError, KeyError) as error:
            raise ValueError(f"not a failure: {error}") from None


def first_to_last(failures: Iterable[Failure]) -> tuple[Failure, ...]:
    """The failures by their time, each worker's once, the cause before what only follows from another's end."""
    ordered = sorted(failures, key=lambda failure: (failure.is_consequence, failure.time, failure.index))
    seen: dict[int, Failure] = {}
    for failure in ordered:
        seen.setdefault(failure.index, failure)
    return tuple(seen.values())


def from_record(record: ErrorRecord, **where: Any) -> Failure:
    """The failure that a worker's error file tells of."""
    own = record.exit_code in _OWN_CODES
    return Failure(
        index=record.index,
        host=record.host,
        time=record.time,
        kind=_KINDS.get(record.exit_code, "exception"),
        message=record.message,
        exit_code=record.exit_code if own else WorkerFailedError.exit_code,
        type=record.type,
        traceback=record.traceback,
        epoch=record.epoch,
        step=record.step,
        **where,
    )


def from_signal(index: int, number: int, *, out_of_memory: bool | None = None, **where: Any) -> Failure:
    """The failure of a worker that signal `number` ended.

    Args:
        index: The worker.
        number: The signal.
        out_of_memory: Whether the kernel has killed a process meanwhile because memory was full; None when it is not
            known.
        **where: See `Failure`.
    """
    try:
        name = signal.Signals(number).name
    except ValueError:
        name = f"signal {number}"
    hint = ""
    if number == signal.SIGKILL and out_of_memory:
        return _seen_now(
            index,
            "memory",
            "killed by the kernel, because the memory of its machine (or of its control group) was full. Use a smaller "
            "batch, fewer workers on this machine, smaller shuffle and prefetch buffers, or more memory",
            type=name,
            **where,
        )
    if number == signal.SIGKILL:
        hint = " (by somebody on purpose: the kernel has killed nothing for want of memory)"
        if out_of_memory is None:
            hint = " (if nobody did so on purpose, the machine may have run out of memory: see `dmesg`)"
    elif number in (signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGILL, signal.SIGFPE):
        hint = " (native code crashed: its last lines may say why)"
    return _seen_now(index, "signal", f"killed by {name}{hint}", type=name, **where)


def from_exit(index: int, code: int, **where: Any) -> Failure:
    """The failure of a worker that left with `code` while the others did not."""
    rule = "all workers of a job must finish together and with the same code"
    return _seen_now(index, "exit", f"exited with code {code} when the other workers did not; {rule}", **where)


def from_start(index: int, error: Exception, **where: Any) -> Failure:
    """The failure of a worker whose process could not be started."""
    code = error.exit_code if isinstance(error, TfdistError) else WorkerFailedError.exit_code
    return _seen_now(index, "start", f"its process could not be started: {error}", exit_code=code, **where)


def _seen_now(index: int, kind: FailureKind, message: str, **where: Any) -> Failure:
    return Failure(index=index, host=socket.gethostname(), time=time.time(), kind=kind, message=message, **where)
