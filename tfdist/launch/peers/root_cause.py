"""Root cause: which of a job's failures came first, and which only followed from another worker's end."""

from __future__ import annotations

import signal
from collections.abc import Iterable

from tfdist.errors import WorkerFailedError
from tfdist.rundir.failure import Failure

WAITING = "waiting"
"""The type of the failures of workers that only wait for one that hangs."""

# How a worker ends when another one is gone: by an exception of TensorFlow's or by tfdist's for it, or because
# TensorFlow's coordination service aborts it.
_CONSEQUENCES = (
    "UnavailableError",
    "AbortedError",
    "CancelledError",
    "DeadlineExceededError",
    WorkerFailedError.__name__,
    signal.SIGABRT.name,
    WAITING,
)


def is_consequence(failure: Failure) -> bool:
    """Returns whether this is how a worker fails because another one did."""
    return failure.type.rpartition(".")[2] in _CONSEQUENCES


def root_cause_first(failures: Iterable[Failure]) -> tuple[Failure, ...]:
    """The failures by time, one for each worker, with those that may be causes before mere consequences."""
    ordered = sorted(failures, key=lambda failure: (is_consequence(failure), failure.time, failure.index))
    seen: dict[int, Failure] = {}
    for failure in ordered:
        seen.setdefault(failure.index, failure)
    return tuple(seen.values())
