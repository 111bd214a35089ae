"""Host losses: how often each host was lost without progress, and how long it stays out. Decides without effects.

A host that comes back and is lost again before the next step would otherwise stop the others for ever, or use up the
restarts of the job.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from tfdist.launch.elastic.generation import CHIEF
from tfdist.rundir.failure import Failure

FIRST_REST_SECONDS = 30.0
MOST_REST_SECONDS = 1800.0
"""Seconds that a host lost twice without progress stays out, at first and at most; twice as long each further time."""
_MOST_DOUBLINGS = 10
_OF_A_HOST = ("lost", "start")


@dataclass(frozen=True)
class Rest:
    """A host stays out for some time.

    Attributes:
        host: Its name.
        losses: How often it was lost without progress, one time after the other.
        seconds: How long it stays out.
    """

    host: str
    losses: int
    seconds: float

    def __str__(self) -> str:
        return (
            f"{self.host} was lost {self.losses} times without a step in between: it stays out for {self.seconds:.0f} "
            "s, unless too few are left without it. Look at its launcher's output and its system's log"
        )


class HostLosses:
    """The losses of the candidates other than the chief, over all generations.

    Args:
        clock: Seconds, never going back.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._losses: dict[int, int] = {}
        self._until: dict[int, float] = {}
        self._best = 0

    def note(self, members: Sequence[int], failures: Sequence[Failure], step: int) -> list[Rest]:
        """Takes note of the end of a generation.

        Args:
            members: Its candidates, ascending.
            failures: What ended it, the first one first.
            step: The greatest step that a worker has reached.

        Returns:
            The hosts that stay out for some time.
        """
        has_progress, self._best = step > self._best, max(step, self._best)
        if has_progress:
            for member in members:
                self._losses.pop(member, None)
        hosts = {members[failure.index]: failure.host for failure in failures if _is_of_other_host(failure, members)}
        rests = []
        for candidate, host in hosts.items():
            self._losses[candidate] = losses = self._losses.get(candidate, 0) + 1
            if losses > 1:
                seconds = min(FIRST_REST_SECONDS * 2 ** min(losses - 2, _MOST_DOUBLINGS), MOST_REST_SECONDS)
                self._until[candidate] = self._clock() + seconds
                rests.append(Rest(host, losses, seconds))
        return rests

    def is_out(self, candidates: Collection[int]) -> bool:
        """Returns whether a host with one of these candidates stays out now."""
        now = self._clock()
        return any(now < self._until.get(candidate, now) for candidate in candidates)


def go_on_without(members: Sequence[int], failures: Sequence[Failure], least: int) -> bool:
    """Returns whether a generation has ended for nothing but other hosts than the chief's, without which enough are
    left.

    Args:
        members: Its candidates, ascending.
        failures: What ended it, the first one first; not empty.
        least: How few are enough.
    """
    lost = {failure.index for failure in failures if _is_of_other_host(failure, members)}
    return failures[0].index in lost and len(members) - len(lost) >= least


def _is_of_other_host(failure: Failure, members: Sequence[int]) -> bool:
    return failure.kind in _OF_A_HOST and CHIEF < failure.index < len(members)
