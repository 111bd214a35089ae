"""Group policy: when a group of workers is done, has failed, and is restarted. Decides without effects."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tfdist.errors import StoreError
from tfdist.launch.peers.root_cause import is_consequence
from tfdist.rundir.failure import Failure

FOLLOW_SECONDS = 5.0
"""Seconds that the others may take to be done too when a worker is done with a code other than 0 and waits for them."""

GONE_SECONDS = 1.5
"""Seconds that the others may take to be done too when a worker has left without waiting for them."""
FIRST_DELAY_SECONDS = 1.0
MOST_DELAY_SECONDS = 60.0
_MOST_DOUBLINGS = 10
_HOPELESS = {
    "usage": "it would fail in the same way again",
    "data": "it would fail in the same way again",
    "start": "it would fail in the same way again",
    "lost": "a launcher is gone, and its workers cannot be started from here",
}
_PASSES = f"{StoreError.__module__}.{StoreError.__qualname__}"
"""An exception that means nothing when it comes twice: a store may be out of order for longer than a start takes."""
_OF_A_HOST = ("lost", "start")
"""Others may go on without the host that has such a failure."""


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


@dataclass(frozen=True)
class RestartAfter:
    """The group is restarted.

    Attributes:
        delay: Seconds until then.
        number: Which restart without progress this is, from 1; 0 where it does not count as one.
    """

    delay: float
    number: int


@dataclass(frozen=True)
class NoRestart:
    """The group is not restarted.

    Attributes:
        why: The reason; empty where no restart was asked for.
    """

    why: str


@dataclass(frozen=True)
class RestartPolicy:
    """The restarts that are left after the attempts so far.

    Attributes:
        most: Restarts without progress that are allowed (`--max-restarts`).
        used: Restarts since there was progress.
        best: The greatest step that any attempt has reached.
        last: The exception, with its step, that ended the previous attempt; None for an end by chance.
        outlives_loss: Whether the group can go on without a host that is gone, or whose workers do not start.
    """

    most: int
    used: int = 0
    best: int = 0
    last: tuple[str, int | None] | None = None
    outlives_loss: bool = False

    def seen(self, step: int) -> RestartPolicy:
        """The policy after an attempt that ended for a reason that is no failure, at this step."""
        return replace(self, used=0, best=step, last=None) if step > self.best else self

    def judge(self, failures: Sequence[Failure], step: int) -> tuple[RestartAfter | NoRestart, RestartPolicy]:
        """Decides about a restart; returns the decision and the policy for the next attempt.

        Args:
            failures: Of the attempt, the first one first; not empty.
            step: The greatest step that a worker of the attempt has reached.
        """
        if self.most == 0:
            return NoRestart(""), self
        first = failures[0]
        kinds = [failure.kind for failure in failures if not (self.outlives_loss and failure.kind in _OF_A_HOST)]
        hopeless = next((_HOPELESS[kind] for kind in kinds if kind in _HOPELESS), None)
        same = _fingerprint(first)
        if hopeless is None and same is not None and same == self.last:
            place = "before the first step" if first.step is None else "at the same step"
            hopeless = f"the same {first.type} came {place} twice"
        used = 0 if step > self.best else self.used
        if hopeless is None and used >= self.most:
            hopeless = f"{_times(used)} without any progress (--max-restarts {self.most})"
        if hopeless is not None:
            return NoRestart(hopeless), self
        # The exponent is bounded too: after a thousand restarts it would be beyond a float's.
        delay = min(FIRST_DELAY_SECONDS * 2 ** min(used, _MOST_DOUBLINGS), MOST_DELAY_SECONDS)
        return RestartAfter(delay, used + 1), replace(self, used=used + 1, best=max(self.best, step), last=same)


def _fingerprint(failure: Failure) -> tuple[str, int | None] | None:
    """The exception and its step, by which a repetition is known; None where it may not come again, or only follows."""
    if failure.kind != "exception" or failure.type == _PASSES or is_consequence(failure):
        return None
    return failure.type, failure.step


def _times(restarts: int) -> str:
    return "it was restarted once" if restarts == 1 else f"it was restarted {restarts} times"
