"""Whether a group of workers that failed is started again: decided from its failures, without any effect."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tfdist.launch.agent.first_failure import is_consequence
from tfdist.rundir.failure import Failure

FIRST_DELAY_SECONDS = 1.0
MOST_DELAY_SECONDS = 60.0
_MOST_DOUBLINGS = 10

_NOT_WORTH_IT = {
    "usage": "it would fail in the same way again",
    "data": "it would fail in the same way again",
    "start": "it would fail in the same way again",
    "lost": "a launcher is gone, and its workers cannot be started from here",
}


@dataclass(frozen=True)
class RestartAfter:
    """The group is started again.

    Attributes:
        delay: Seconds before.
        number: Which restart without progress this is, from 1.
    """

    delay: float
    number: int


@dataclass(frozen=True)
class NoRestart:
    """The group is not started again.

    Attributes:
        why: In words; empty where no restart was asked for.
    """

    why: str


@dataclass(frozen=True)
class RestartPolicy:
    """What is known of the attempts so far.

    Attributes:
        most: Restarts without progress that are allowed (`--max-restarts`).
        used: Restarts since there was progress.
        best: The greatest step that any attempt has reached.
        last: What ended the attempt before, as far as it can come again: the exception and its step.
    """

    most: int
    used: int = 0
    best: int = 0
    last: tuple[str, int | None] | None = None

    def judge(self, failures: Sequence[Failure], step: int) -> tuple[RestartAfter | NoRestart, RestartPolicy]:
        """What to do after an attempt, and what is known then.

        Args:
            failures: Of the attempt, the first one first; not empty.
            step: The greatest step that a worker of the attempt has reached.
        """
        if self.most == 0:
            return NoRestart(""), self
        first = failures[0]
        hopeless = next((_NOT_WORTH_IT[failure.kind] for failure in failures if failure.kind in _NOT_WORTH_IT), None)
        same = _fingerprint(first)
        if hopeless is None and same is not None and same == self.last:
            place = "before the first step" if first.step is None else "at the same step"
            hopeless = f"the same {first.type} came {place} twice"
        used = 0 if step > self.best else self.used
        if hopeless is None and used >= self.most:
            hopeless = f"{_times(used)} without any progress (--max-restarts {self.most})"
        if hopeless is not None:
            return NoRestart(hopeless), self
        # The exponent has a bound too: that of a float's is met after a thousand restarts.
        delay = min(FIRST_DELAY_SECONDS * 2 ** min(used, _MOST_DOUBLINGS), MOST_DELAY_SECONDS)
        return RestartAfter(delay, used + 1), replace(self, used=used + 1, best=max(self.best, step), last=same)


def _fingerprint(failure: Failure) -> tuple[str, int | None] | None:
    """What is the same when an exception comes again; None for what may well not come again.

    That is how a worker fails when a connection breaks, too: it is an exception, and its cause is elsewhere.
    """
    if failure.kind != "exception" or is_consequence(failure):
        return None
    return failure.type, failure.step


def _times(restarts: int) -> str:
    return "it was restarted once" if restarts == 1 else f"it was restarted {restarts} times"
