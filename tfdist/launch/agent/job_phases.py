"""The life of a job, as each of its launchers sees it."""

from __future__ import annotations

import enum
from collections.abc import Callable


class Phase(enum.Enum):
    """Where in its life a job is.

    ::

        STARTING ---> FORMING ---> RUNNING ---> STOPPING ---> DONE
           |             |          ^             |  |
           |             |          |             |  |
           |             |      RESTARTING <------+  |
           |             |          |                |
           +-------------+----------+----------------+----> FAILED

    STARTING: ports are held; nobody else knows of the job. FORMING: the launchers of several hosts find one another;
    a job of one launcher passes through at once. RUNNING: the workers train. STOPPING: they leave, because all are
    done, because somebody asked the job to stop, or because one of them failed. RESTARTING: none is left, and the
    next attempt begins after a delay. DONE: the scripts ended as they wanted. FAILED: they did not, or the job was
    stopped.
    """

    STARTING = "starting"
    FORMING = "forming"
    RUNNING = "running"
    STOPPING = "stopping"
    RESTARTING = "restarting"
    DONE = "done"
    FAILED = "failed"


_NEXT = {
    Phase.STARTING: {Phase.FORMING, Phase.FAILED},
    Phase.FORMING: {Phase.RUNNING, Phase.FAILED},
    Phase.RUNNING: {Phase.STOPPING},
    Phase.STOPPING: {Phase.RESTARTING, Phase.DONE, Phase.FAILED},
    Phase.RESTARTING: {Phase.RUNNING, Phase.FAILED},
    Phase.DONE: set[Phase](),
    Phase.FAILED: set[Phase](),
}


def check_step(before: Phase, after: Phase) -> Phase:
    """Returns `after`.

    Raises:
        ValueError: The diagram has no arrow from `before` to `after`.
    """
    if after not in _NEXT[before]:
        raise ValueError(f"A job does not go from {before.value} to {after.value}.")
    return after


class Life:
    """Where one job is in its life.

    Args:
        entered: Called with every phase after STARTING, and with the number of the attempt that it belongs to.
    """

    def __init__(self, entered: Callable[[Phase, int], None] = lambda phase, attempt: None) -> None:
        self._phase = Phase.STARTING
        self._entered = entered

    @property
    def phase(self) -> Phase:
        """The phase that the job is in."""
        return self._phase

    def tell(self, entered: Callable[[Phase, int], None]) -> None:
        """From now on `entered` is called instead."""
        self._entered = entered

    def enter(self, phase: Phase, attempt: int = 0) -> None:
        """The job goes into its next phase.

        Raises:
            ValueError: The diagram has no arrow from this phase to that.
        """
        self._phase = check_step(self._phase, phase)
        self._entered(phase, attempt)
