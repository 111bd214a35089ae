"""Phases of a job, as each of its launchers sees them, and the order that they may come in."""

from __future__ import annotations

import enum
from collections.abc import Callable


class JobPhase(enum.Enum):
    """The phases of a job.

    ::

        STARTING ---> FORMING ---> RUNNING ---> STOPPING ---> DONE
           |             |          ^             |  |
           |             |          |             |  |
           |             |      RESTARTING <------+  |
           |             |          |                |
           +-------------+----------+----------------+----> FAILED

    STARTING: this launcher takes its ports. FORMING: the launchers of several hosts find one another; a job of one
    launcher passes through at once. RUNNING: the workers train. STOPPING: they leave, because all are done, because
    somebody asked the job to stop, or because one of them failed. RESTARTING: none is left, and the next attempt
    starts after a delay. DONE: the scripts ended by themselves. FAILED: they did not, or the job was stopped.
    """

    STARTING = "starting"
    FORMING = "forming"
    RUNNING = "running"
    STOPPING = "stopping"
    RESTARTING = "restarting"
    DONE = "done"
    FAILED = "failed"


_NEXT = {
    JobPhase.STARTING: {JobPhase.FORMING, JobPhase.FAILED},
    JobPhase.FORMING: {JobPhase.RUNNING, JobPhase.FAILED},
    JobPhase.RUNNING: {JobPhase.STOPPING},
    JobPhase.STOPPING: {JobPhase.RESTARTING, JobPhase.DONE, JobPhase.FAILED},
    JobPhase.RESTARTING: {JobPhase.RUNNING, JobPhase.FAILED},
    JobPhase.DONE: set[JobPhase](),
    JobPhase.FAILED: set[JobPhase](),
}


def check_transition(before: JobPhase, after: JobPhase) -> JobPhase:
    """Returns `after`.

    Raises:
        ValueError: The diagram has no arrow from `before` to `after`.
    """
    if after not in _NEXT[before]:
        raise ValueError(f"A job does not go from {before.value} to {after.value}.")
    return after


class JobLifecycle:
    """The phase that one job is in.

    Args:
        entered: Called with every phase after STARTING, and with the number of its attempt.
    """

    def __init__(self, entered: Callable[[JobPhase, int], None] = lambda phase, attempt: None) -> None:
        self._phase = JobPhase.STARTING
        self._entered = entered

    @property
    def phase(self) -> JobPhase:
        """The phase that the job is in."""
        return self._phase

    def call(self, entered: Callable[[JobPhase, int], None]) -> None:
        """Calls `entered` from now on, instead of what was given before."""
        self._entered = entered

    def enter(self, phase: JobPhase, attempt: int = 0) -> None:
        """Enters the next phase.

        Raises:
            ValueError: The diagram has no arrow from this phase to that.
        """
        self._phase = check_transition(self._phase, phase)
        self._entered(phase, attempt)
