"""From the lines of a ledger to an account in which every second has one place. Pure: no clock, no disk.

The wall time of a run is that in which a launcher of it lived: from the begin of `tfdist train` to its end, added up
over the starts by hand; the time between two of them is not counted. The lines are laid on it one after another. What
they leave open is start-up before the chief's first word, lost to a restart between the last word of an attempt that
failed and the next one's start, and other anywhere else.

A step is lost when an attempt after it begins at or before it: the run went on from an earlier checkpoint, and does it
again. Its time counts as replayed, with the attempt that did it for nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tfdist.rundir.ledger import Entry, Kind, Phase, Stretch, Turn

Seconds = Mapping[Kind, float]


@dataclass(frozen=True)
class Span:
    """A stretch of the wall time, after which the next one follows without a gap unless another job begins.

    Attributes:
        since: When it began, in seconds since 1970 (UTC).
        at: When it ended.
        seconds: Where they went; they add up to `at - since`.
        first: Training batches of the run that were done when it began.
        last: And when it ended; the same where it trained none.
    """

    since: float
    at: float
    seconds: Seconds
    first: int = 0
    last: int = 0


@dataclass(frozen=True)
class AttemptAccount:
    """One start of the workers, with all that came until the next one.

    Attributes:
        number: From 0.
        spans: In the order of time; at least one.
        lost: Steps of it that a later attempt has done, or will do, again.
        told: The greatest step that a worker of it has told its launcher; 0 where that has said nothing.
        phase: How it ended; `running` where nobody has said so: it still runs, or its launcher was killed.
        why: What ended it, in words; empty when it came to its end.
        opens: Whether a job began with it, by hand or by a scheduler, rather than a restart.
    """

    number: int
    spans: tuple[Span, ...]
    lost: int = 0
    phase: Phase = Phase.RUNNING
    why: str = ""
    opens: bool = True
    told: int = 0

    @property
    def since(self) -> float:
        """When it began, in seconds since 1970 (UTC)."""
        return self.spans[0].since

    @property
    def at(self) -> float:
        """When it was over, as far as is known."""
        return self.spans[-1].at

    @property
    def seconds(self) -> Seconds:
        """Where they went, over all of it."""
        return total(span.seconds for span in self.spans)

    @property
    def begun_at(self) -> int | None:
        """Training batches of the run that were done before its first; None when it has trained none."""
        return next((span.first for span in self.spans if span.last > span.first), None)

    @property
    def reached(self) -> int | None:
        """Training batches of the run that it has come to; None when it has trained none.

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
    """Where the wall time of a run went.

    Attributes:
        attempts: In the order of time; at least one.
        damaged: Lines of the ledger that could not be read.
    """

    attempts: tuple[AttemptAccount, ...]
    damaged: int = 0

    @property
    def seconds(self) -> Seconds:
        """Where they went; every kind has its entry, and they add up to `wall`."""
        return {**dict.fromkeys(Kind, 0.0), **total(attempt.seconds for attempt in self.attempts)}

    @property
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
        """Training batches that were done for nothing."""
        return sum(attempt.lost for attempt in self.attempts)

    @property
    def goodput(self) -> float:
        """The part of the wall time that went into training steps that count, from 0 to 1."""
        return self.seconds[Kind.STEP] / self.wall if self.wall else 0.0

    @property
    def restarts(self) -> int:
        """Attempts that a launcher began after another one had failed."""
        return sum(not attempt.opens for attempt in self.attempts)


def total(parts: Iterable[Seconds]) -> dict[Kind, float]:
    """The sum of what several stretches were spent on."""
    sums: dict[Kind, float] = {}
    for part in parts:
        for kind, seconds in part.items():
            sums[kind] = sums.get(kind, 0.0) + seconds
    return sums


def account(entries: Sequence[Entry], damaged: int = 0) -> Account | None:
    """The account of a run; None while its workers have not been started.

    Args:
        entries: The lines of its ledger, in their order.
        damaged: How many could not be read.
    """
    laid = _Laying()
    for entry in entries:
        laid.take(entry)
    attempts = _without_lost([attempt.done() for attempt in laid.attempts])
    return Account(tuple(attempts), damaged) if attempts else None


@dataclass
class _Open:
    """An attempt that lines are laid into."""

    number: int
    opens: bool
    spans: list[Span]
    heard: bool = False
    phase: Phase = Phase.RUNNING
    why: str = ""
    told: int = 0

    def done(self) -> AttemptAccount:
        return AttemptAccount(self.number, tuple(self.spans), 0, self.phase, self.why, self.opens, self.told)


@dataclass
class _Laying:
    """Lays lines on the wall time, each behind the one before."""

    attempts: list[_Open] = field(default_factory=list)
    now: float = 0.0

    def take(self, entry: Entry) -> None:
        """The next line."""
        if isinstance(entry, Turn) and entry.phase is Phase.RUNNING:
            self._begin(entry)
        elif self.attempts and entry.attempt == self.attempts[-1].number:
            if isinstance(entry, Turn):
                self._end(entry)
            else:
                self._add(entry)

    def _begin(self, turn: Turn) -> None:
        """Another attempt; without a begin of its own its job is that of the one before."""
        if turn.since is not None or not self.attempts:
            self.now = max(self.now, turn.at if turn.since is None else min(turn.since, turn.at))
            self.attempts.append(_Open(turn.attempt, opens=True, spans=[Span(self.now, self.now, {})]))
            self._fill(turn.at, Kind.START_UP)
            return
        self._fill(turn.at, Kind.RESTART)
        self.attempts.append(_Open(turn.attempt, opens=False, spans=[Span(self.now, self.now, {})]))

    def _add(self, stretch: Stretch) -> None:
        attempt = self.attempts[-1]
        self._fill(stretch.since, Kind.OTHER if attempt.heard else Kind.START_UP)
        attempt.heard = True
        since, at = max(self.now, stretch.since), max(self.now, stretch.at)
        # By the clocks of one machine none is laid over another; a clock that was set must not break the sum.
        part = (at - since) / (stretch.at - stretch.since) if stretch.at > stretch.since else 0.0
        seconds = {Kind(kind): spent * part for kind, spent in stretch.seconds.items()}
        rest = at - since - sum(seconds.values())
        seconds[Kind.OTHER] = seconds.get(Kind.OTHER, 0.0) + rest
        attempt.spans.append(Span(since, at, seconds, max(0, stretch.step - stretch.steps), stretch.step))
        self.now = at

    def _end(self, turn: Turn) -> None:
        attempt = self.attempts[-1]
        failed = turn.phase in (Phase.RESTARTING, Phase.FAILED)
        self._fill(turn.at, Kind.RESTART if failed else Kind.OTHER)
        attempt.phase = turn.phase
        attempt.why = turn.why
        attempt.told = turn.step or 0

    def _fill(self, at: float, kind: Kind) -> None:
        """What no line has said."""
        if at > self.now:
            self.attempts[-1].spans.append(Span(self.now, at, {kind: at - self.now}))
            self.now = at


def _without_lost(attempts: Sequence[AttemptAccount]) -> list[AttemptAccount]:
    """The attempts, with the time of steps that later ones do again taken for replayed."""
    left: list[AttemptAccount] = []
    again: int | None = None
    for attempt in reversed(attempts):
        left.append(attempt if again is None else _replayed(attempt, again))
        begun = attempt.begun_at
        again = again if begun is None else begun if again is None else min(again, begun)
    return left[::-1]


def _replayed(attempt: AttemptAccount, again: int) -> AttemptAccount:
    """The attempt, whose steps after `again` are done again."""
    spans = [_replayed_span(span, again) for span in attempt.spans]
    if attempt.begun_at is None or attempt.reached is None:
        return attempt
    return replace(attempt, spans=tuple(spans), lost=max(0, attempt.reached - max(attempt.begun_at, again)))


def _replayed_span(span: Span, again: int) -> Span:
    lost, stepping = _lost(span, again), span.seconds.get(Kind.STEP, 0.0)
    if not lost or not stepping:
        return span
    moved = stepping * lost / (span.last - span.first)
    return replace(span, seconds={**span.seconds, Kind.STEP: stepping - moved, Kind.REPLAY: moved})


def _lost(span: Span, again: int) -> int:
    return max(0, span.last - max(span.first, again))
