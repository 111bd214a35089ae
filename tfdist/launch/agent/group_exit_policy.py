"""Group exit policy: when a group of workers is done, and when it has failed; from their exits, without effects."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass

FOLLOW_SECONDS = 5.0
"""Seconds that the others may take to be done too when a worker is done with a code other than 0 and waits for them."""

GONE_SECONDS = 1.5
"""Seconds that the others may take to be done too when a worker has left without waiting for them."""


@dataclass(frozen=True)
class WorkerExit:
    """The known facts about the exit of one worker.

    Attributes:
        index: The worker.
        code: The exit code that it is done with; None while it works.
        gone: Whether its process has ended.
        failed: Whether an exception or a signal ended it.
        since: When `code` became known, in seconds of the clock that `decide_exit` is given.
    """

    index: int
    code: int | None = None
    gone: bool = False
    failed: bool = False
    since: float = 0.0


class ExitAction(enum.Enum):
    """An action: what to do with the group now."""

    WAIT = "wait"
    RELEASE = "release"  # every worker is done and may leave
    END = "end"  # a worker failed: the others end too


@dataclass(frozen=True)
class ExitDecision:
    """The decision what to do with the group, and with which result.

    Attributes:
        action: What to do.
        code: For RELEASE, the job's exit code, on which all workers agree.
        culprits: For END, the workers to blame.
    """

    action: ExitAction
    code: int = 0
    culprits: tuple[int, ...] = ()


def decide_exit(workers: Sequence[WorkerExit], now: float, awaited: int | None = None) -> ExitDecision:
    """Decides what to do now.

    A worker that is done with code 0 may wait for the others as long as they work. After any other exit, all others
    must be done with the same code within FOLLOW_SECONDS or GONE_SECONDS, or the group has failed.

    Args:
        workers: All workers of the job.
        now: Seconds of the clock.
        awaited: The code with which all were asked to stop; a worker that is done with it may wait for the others.
    """
    failed = tuple(worker.index for worker in workers if worker.failed)
    if failed:
        return ExitDecision(ExitAction.END, culprits=failed)
    codes = {worker.code for worker in workers if worker.code is not None}
    leaving = [w for w in workers if w.code is not None and (w.gone or w.code not in (0, awaited))]
    disagree = len(codes) > 1
    if all(worker.code is not None for worker in workers) and not disagree:
        return ExitDecision(ExitAction.RELEASE, code=codes.pop())
    if leaving and (disagree or any(_is_late(worker, now) for worker in leaving)):
        return ExitDecision(ExitAction.END, culprits=tuple(worker.index for worker in leaving))
    return ExitDecision(ExitAction.WAIT)


def _is_late(leaver: WorkerExit, now: float) -> bool:
    return now - leaver.since > (GONE_SECONDS if leaver.gone else FOLLOW_SECONDS)
