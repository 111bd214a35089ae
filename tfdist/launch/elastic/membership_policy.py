"""Membership policy: whether a generation begins, with whom, or what it waits for. Decides without effects."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass


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
