"""Failure diagnosis: what ended a worker, from its error file, its signal, its exit code or the error at its start."""

from __future__ import annotations

import signal
import socket
import time
from dataclasses import replace
from typing import Any

from tfdist.errors import ClusterError, DataError, FormingError, TfdistError, WorkerFailedError
from tfdist.rundir.failure import Failure, FailureKind

_OWN_CODES = (ClusterError.exit_code, FormingError.exit_code, DataError.exit_code)


def from_error(error: Failure, **process: Any) -> Failure:
    """The failure of a worker that an exception ended.

    Args:
        error: What the worker's error file says.
        **process: What is known of its process: `address`, `pid`, `log` and `last_lines`.
    """
    code = error.exit_code if error.exit_code in _OWN_CODES else WorkerFailedError.exit_code
    return replace(error, exit_code=code, **process)


def from_signal(index: int, number: int, *, out_of_memory: bool | None = None, **process: Any) -> Failure:
    """The failure of a worker that a signal ended.

    Args:
        index: The worker.
        number: The signal.
        out_of_memory: Whether the kernel has killed a process meanwhile because memory was full; None when that is
            unknown.
        **process: What is known of its process: `address`, `pid`, `log` and `last_lines`.
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
            **process,
        )
    if number == signal.SIGKILL:
        hint = " (by somebody on purpose: the kernel has killed nothing for want of memory)"
        if out_of_memory is None:
            hint = " (if nobody did so on purpose, the machine may have run out of memory: see `dmesg`)"
    elif number in (signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGILL, signal.SIGFPE):
        hint = " (native code crashed: its last lines may say why)"
    return _seen_now(index, "signal", f"killed by {name}{hint}", type=name, **process)


def from_exit(index: int, code: int, **process: Any) -> Failure:
    """The failure of a worker that left with `code` while the others did not."""
    rule = "all workers of a job must finish together and with the same code"
    return _seen_now(index, "exit", f"exited with code {code} when the other workers did not; {rule}", **process)


def from_start(index: int, error: Exception, **process: Any) -> Failure:
    """The failure of a worker whose process could not be started."""
    code = error.exit_code if isinstance(error, TfdistError) else WorkerFailedError.exit_code
    return _seen_now(index, "start", f"its process could not be started: {error}", exit_code=code, **process)


def _seen_now(index: int, kind: FailureKind, message: str, **process: Any) -> Failure:
    return Failure(index=index, host=socket.gethostname(), time=time.time(), kind=kind, message=message, **process)
