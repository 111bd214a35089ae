"""Account of a run's wall time: attempts, their spans, and their sums."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tfdist.rundir.ledger_lines import AttemptPhase, TimeKind

Seconds = Mapping[TimeKind, float]


@dataclass(frozen=True)
class Span:
    """A span of the wall time; the next one follows without a gap unless another job starts.

    Attributes:
        since: When it started, in seconds since 1970 (UTC).
        at: When it ended.
        seconds: Seconds of each kind of time; they add up to `at - since`.
        first: Training batches of the run that were done when it started.
        last: Those that were done when it ended; the same where it trained none.
    """

    since: float
    at: float
    seconds: Seconds
    first: int = 0
    last: int = 0


@dataclass(frozen=True)
class AttemptAccount:
    """One attempt: a start of the workers, with everything until the next start.

    Attributes:
        number: Its number, from 0.
        spans: Its spans in order; at least one.
        lost: Its steps that a later attempt does again.
        phase: How it ended; `running` where no line says so: it still runs, or its launcher was killed.
        why: What ended it, in words; empty when it finished.
        opens: Whether a job started with it, by hand or by a scheduler, rather than a restart.
        told: The greatest step that its launcher has heard of; 0 for none.
        noticed: When its failure was noticed, in seconds since 1970 (UTC); None where it has not failed.
        ended: When none of its workers was left; None where no line says so.
    """

    number: int
    spans: tuple[Span, ...]
    lost: int = 0
    phase: AttemptPhase = AttemptPhase.RUNNING
    why: str = ""
    opens: bool = True
    told: int = 0
    noticed: float | None = None
    ended: float | None = None

    @property
    def since(self) -> float:
        """The time at which it started, in seconds since 1970 (UTC)."""
        return self.spans[0].since

    @property
    def at(self) -> float:
        """The time at which it was over, as far as is known."""
        return self.spans[-1].at

    @functools.cached_property
    def seconds(self) -> Seconds:
        """Seconds of each kind of time."""
        return total(span.seconds for span in self.spans)

    @property
    def begun_at(self) -> int | None:
        """Training batches of the run that were done before its first; None when it has trained none."""
        return next((span.first for span in self.spans if span.last > span.first), None)

    @property
    def reached(self) -> int | None:
        """Training batches of the run that were done when it ended; None when it has trained none.

        The last ones before a kill are in no line of the chief's; its launcher has heard of them.
        """
        last = next((span.last for span in reversed(self.spans) if span.last > span.first), None)
        return None if last is None else max(last, self.told)

    @property
    def steps(self) -> int:
        """Training batches that it has done."""
        return 0 if self.begun_at is None or self.reached is None else self.reached - self.begun_at


@dataclass(frozen=True)
class Account:
    """The account of a run's wall time: where it went.

    Attributes:
        attempts: Its attempts in order; at least one.
        damaged: Lines of the ledger that could not be read.
    """

    attempts: tuple[AttemptAccount, ...]
    damaged: int = 0

    @functools.cached_property
    def seconds(self) -> Seconds:
        """Seconds of every kind of time; they add up to `wall`."""
        return {**dict.fromkeys(TimeKind, 0.0), **total(attempt.seconds for attempt in self.attempts)}

    @functools.cached_property
    def wall(self) -> float:
        """Seconds in which a launcher of the run lived."""
        return sum(attempt.at - attempt.since for attempt in self.attempts)

    @property
    def away(self) -> float:
        """Seconds between two jobs of the run, which are no part of its wall time."""
        pairs = zip(self.attempts, self.attempts[1:], strict=False)
        return sum(max(0.0, after.since - before.at) for before, after in pairs if after.opens)

    @property
    def steps(self) -> int:
        """Training batches that count: done, and not done again."""
        return sum(attempt.steps for attempt in self.attempts) - self.lost

    @property
    def lost(self) -> int:
        """Training batches that were done in vain."""
        return sum(attempt.lost for attempt in self.attempts)

    @property
    def goodput(self) -> float:
        """The part of the wall time that went into training steps that count, from 0 to 1."""
        return self.seconds[TimeKind.STEP] / self.wall if self.wall else 0.0

    @property
    def restarts(self) -> int:
        """Attempts that a launcher started after another one had failed."""
        return sum(not attempt.opens for attempt in self.attempts)


def total(parts: Iterable[Seconds]) -> dict[TimeKind, float]:
    """The sum over several spans."""
    sums: dict[TimeKind, float] = {}
    for part in parts:
        for kind, seconds in part.items():
            sums[kind] = sums.get(kind, 0.0) + seconds
    return sums
