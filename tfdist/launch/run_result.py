"""Run result: how an attempt or a job ended."""

from __future__ import annotations

import signal
from dataclasses import dataclass

from tfdist.launch.peers.messages import Stop
from tfdist.rundir.failure import Failure


@dataclass(frozen=True)
class RunResult:
    """The result of an attempt or a job: how it ended.

    Attributes:
        code: What the launcher exits with.
        failures: Every failure of the job that is known here, the first one first.
        stop: The stop that somebody asked for, if any.
        step: The greatest step that a worker is known to have reached.
        advice: What the user is told besides: about restarts, or how the workers stopped.
        run_dir: The run directory on this machine; None where the job came to none.
    """

    code: int
    failures: tuple[Failure, ...] = ()
    stop: Stop | None = None
    step: int = 0
    advice: str = ""
    run_dir: str | None = None

    def failed_meanwhile(self) -> tuple[Failure, ...]:
        """The failures of a job that was stopped, without those workers that the stop itself ended."""
        return tuple(failure for failure in self.failures if failure.type != signal.SIGTERM.name)
