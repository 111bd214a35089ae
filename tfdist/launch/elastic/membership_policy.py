"""Membership policy: whether a generation begins, with whom, or what it waits for; how long a lost host stays out."""

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
class Begin:
    """The generation begins.

    Attributes:
        members: The candidates that take part, ascending.
    """

    members: tuple[int, ...]


@dataclass(frozen=True)
class Wait:
    """It does not begin yet.

    Attributes:
        missing: The candidates that it waits for, ascending.
        seconds: How long it does so at most, if nobody comes.
    """

    missing: tuple[int, ...]
    seconds: float


@dataclass(frozen=True)
class TooFew:
    """It cannot begin.

    Attributes:
        missing: The candidates that have not come, ascending.
        waited: Seconds that were waited for them.
    """

    missing: tuple[int, ...]
    waited: float


@dataclass(frozen=True)
class MembershipPolicy:
    """The rule by which generations begin.

    The first waits for all candidates: until `start_timeout`, or `rejoin_timeout` after there are enough of them. A
    later one waits for those of the generation before alone, `rejoin_timeout` at most; others take part if they are
    there by then.

    Attributes:
        candidates: How many workers the list has.
        min_workers: How few are enough.
        start_timeout: Seconds for the first generation.
        rejoin_timeout: Seconds.
    """

    candidates: int
    min_workers: int
    start_timeout: float
    rejoin_timeout: float

    def decide(
        self, present: Collection[int], before: Collection[int] | None, waited: float, enough: float
    ) -> Begin | Wait | TooFew:
        """Decides about the next generation.

        Args:
            present: The candidates whose launchers are there and can take part.
            before: Those of the generation before; None for the first.
            waited: Seconds since the generation before ended, or since this launcher has started.
            enough: Seconds since there are enough; of no meaning while there are not.
        """
        wanted = range(self.candidates) if before is None else before
        missing = tuple(sorted(set(wanted) - set(present)))
        is_enough = len(present) >= self.min_workers
        limit = self.rejoin_timeout if before is not None else self.start_timeout
        left = limit - waited
        if is_enough and before is None:
            left = min(left, self.rejoin_timeout - enough)
        if is_enough and (not missing or left <= 0):
            return Begin(tuple(sorted(present)))
        if left <= 0:
            absent = tuple(sorted(set(range(self.candidates)) - set(present)))
            return TooFew(absent, waited)
        return Wait(missing or tuple(sorted(set(range(self.candidates)) - set(present))), left)


def that_fit(
    present: tuple[int, ...], launchers: Collection[Collection[int]], fits: Callable[[tuple[int, ...]], bool]
) -> tuple[int, ...]:
    """The most of the candidates that are there who can train together, the first ones: all or none of a launcher's.

    Args:
        present: The candidates that are there, ascending.
        launchers: The candidates of each launcher.
        fits: Whether workers can share what is cut, such as in groups of `--tensor`.

    Returns:
        All that are there where no number of them can.
    """
    for count in range(len(present), 0, -1):
        some = present[:count]
        is_of_whole_launchers = all(set(own) <= set(some) or not set(own) & set(some) for own in launchers)
        if is_of_whole_launchers and fits(some):
            return some
    return present


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
    """The losses of the candidates other than the chief, over all generations."""

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
