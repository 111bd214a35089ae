"""From the lines of a ledger to an account in which every second has one place. Pure: no clock, no disk.

The wall time of a run is that in which a launcher of it lived: from the begin of `tfdist train` to its end, added up
over the starts by hand; the time between two of them is not counted. The lines are laid on it one after another. What
they leave open is start-up before the chief's first word, lost to a restart between the last word of an attempt that
failed and the next one's start, and other anywhere else.

A step is lost when an attempt after it begins at or before it: the run went on from an earlier checkpoint, and does it
again. Its time counts as replayed, with the attempt that did it for nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from tfdist.reports.ledger.account import Account, AttemptAccount, Span
from tfdist.rundir.ledger_lines import AttemptPhase, LedgerEntry, LedgerEvent, LedgerInterval, TimeKind

_MOST_SPANS = 4096
"""Of one attempt: more are laid together two and two, so that an account of months is as small as one of a day."""
_KINDS = {kind.value: kind for kind in TimeKind}


def account(entries: Iterable[LedgerEntry], damaged: int = 0) -> Account | None:
    """The account of a run; None while its workers have not been started.

    Args:
        entries: The lines of its ledger, in their order; each is looked at once.
        damaged: How many could not be read.
    """
    laid = _Laying()
    for entry in entries:
        laid.take(entry)
    attempts = _without_lost([attempt.done() for attempt in laid.attempts])
    return Account(tuple(attempts), damaged) if attempts else None


@dataclass(slots=True)
class _Laid:
    """A `Span` that grows."""

    since: float
    at: float
    seconds: dict[TimeKind, float]
    first: int = 0
    last: int = 0

    @property
    def trains(self) -> bool:
        return self.last > self.first

    def add(self, other: _Laid) -> None:
        """What comes right behind it."""
        self.at = other.at
        for kind, spent in other.seconds.items():
            self.seconds[kind] = self.seconds.get(kind, 0.0) + spent
        if other.trains:
            self.first = self.first if self.trains else other.first
            self.last = other.last

    def done(self) -> Span:
        return Span(self.since, self.at, self.seconds, self.first, self.last)


@dataclass
class _Open:
    """An attempt that lines are laid into."""

    number: int
    opens: bool
    spans: list[_Laid]
    heard: bool = False
    phase: AttemptPhase = AttemptPhase.RUNNING
    why: str = ""
    told: int = 0
    noticed: float | None = None
    ended: float | None = None
    width: float = 0.0
    has_trained: bool = False

    def lay(self, span: _Laid) -> None:
        """The next one; of a long attempt several become one, but for those up to the first step, which tell when."""
        last = self.spans[-1]
        if last.at - last.since < self.width:
            last.add(span)
            return
        self.spans.append(span)
        if len(self.spans) > _MOST_SPANS and self.has_trained:
            self._lay_together()
        self.has_trained = self.has_trained or span.trains

    def _lay_together(self) -> None:
        first = next(place for place, span in enumerate(self.spans) if span.trains) + 1
        kept, rest = self.spans[:first], self.spans[first:]
        for one, other in zip(rest[::2], rest[1::2], strict=False):
            one.add(other)
        self.spans = kept + rest[::2]
        self.width = 2 * (self.spans[-1].at - self.spans[0].since) / _MOST_SPANS

    def done(self) -> AttemptAccount:
        return AttemptAccount(
            self.number,
            tuple(span.done() for span in self.spans),
            phase=self.phase,
            why=self.why,
            opens=self.opens,
            told=self.told,
            noticed=self.noticed,
            ended=self.ended,
        )


@dataclass
class _Laying:
    """Lays lines on the wall time, each behind the one before."""

    attempts: list[_Open] = field(default_factory=list)
    now: float = 0.0

    def take(self, entry: LedgerEntry) -> None:
        """The next line."""
        if isinstance(entry, LedgerEvent) and entry.phase is AttemptPhase.RUNNING:
            self._begin(entry)
        elif self.attempts and entry.attempt == self.attempts[-1].number:
            if isinstance(entry, LedgerEvent):
                self._end(entry)
            else:
                self._add(entry)

    def _begin(self, turn: LedgerEvent) -> None:
        """Another attempt; without a begin of its own its job is that of the one before."""
        if turn.since is not None or not self.attempts:
            self.now = max(self.now, turn.at if turn.since is None else min(turn.since, turn.at))
            self.attempts.append(_Open(turn.attempt, opens=True, spans=[_Laid(self.now, self.now, {})]))
            self._fill(turn.at, TimeKind.START_UP)
            return
        self._fill(turn.at, TimeKind.RESTART)
        self.attempts.append(_Open(turn.attempt, opens=False, spans=[_Laid(self.now, self.now, {})]))

    def _add(self, stretch: LedgerInterval) -> None:
        attempt = self.attempts[-1]
        self._fill(stretch.since, TimeKind.OTHER if attempt.heard else TimeKind.START_UP)
        attempt.heard = True
        since, at = max(self.now, stretch.since), max(self.now, stretch.at)
        # By the clocks of one machine none is laid over another; a clock that was set must not break the sum.
        part = (at - since) / (stretch.at - stretch.since) if stretch.at > stretch.since else 0.0
        seconds = {_KINDS[kind]: spent * part for kind, spent in stretch.seconds.items()}
        rest = at - since - sum(seconds.values())
        seconds[TimeKind.OTHER] = seconds.get(TimeKind.OTHER, 0.0) + rest
        attempt.lay(_Laid(since, at, seconds, max(0, stretch.step - stretch.steps), stretch.step))
        self.now = at

    def _end(self, turn: LedgerEvent) -> None:
        attempt = self.attempts[-1]
        failed = turn.phase in (AttemptPhase.RESTARTING, AttemptPhase.FAILED)
        self._fill(turn.at, TimeKind.RESTART if failed else TimeKind.OTHER)
        attempt.phase = turn.phase
        attempt.why = turn.why
        attempt.told = turn.step or 0
        attempt.ended = turn.at
        if failed:
            # By another machine's clock it may have been noticed later than it ended.
            attempt.noticed = turn.at if turn.noticed is None else min(turn.noticed, turn.at)

    def _fill(self, at: float, kind: TimeKind) -> None:
        """What no line has said."""
        if at > self.now:
            self.attempts[-1].lay(_Laid(self.now, at, {kind: at - self.now}))
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
    lost, stepping = _lost(span, again), span.seconds.get(TimeKind.STEP, 0.0)
    if not lost or not stepping:
        return span
    moved = stepping * (lost / (span.last - span.first))  # of a span that is lost as a whole, all of it
    return replace(span, seconds={**span.seconds, TimeKind.STEP: stepping - moved, TimeKind.REPLAY: moved})


def _lost(span: Span, again: int) -> int:
    return max(0, span.last - max(span.first, again))
