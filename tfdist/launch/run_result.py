"""How an attempt, or a job, ended."""

from __future__ import annotations

from dataclasses import dataclass

from tfdist.launch.peers.messages import Stop
from tfdist.rundir.failure import Failure


@dataclass(frozen=True)
class RunResult:
    """How an attempt, or a job, ended.

    Attributes:
        code: What the launcher exits with.
        failures: Every failure of the job that is known here, the first one first.
        stop: Who ended it on purpose, if anybody did.
        step: The greatest step that a worker is known to have reached.
        advice: What is said besides: of restarts, or of how the workers stopped.
    """

    code: int
    failures: tuple[Failure, ...] = ()
    stop: Stop | None = None
    step: int = 0
    advice: str = ""
