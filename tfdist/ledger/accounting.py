"""From the lines of a ledger to an account in which every second has one place. Pure: no clock, no disk.

The wall time of a run is that in which a launcher of it lived: from the begin of `tfdist train` to its end, added up
over the starts by hand; the time between two of them is not counted. The lines are laid on it one after another. What
they leave open is start-up before the chief's first word, lost to a restart between the last word of an attempt that
failed and the next one's start, and other anywhere else.

A step is lost when an attempt after it begins at or before it: the run went on from an earlier checkpoint, and does it
again. Its time counts as replayed, with the attempt that did it for nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from tfdist.ledger.account import Account, AttemptAccount, Span
from tfdist.rundir.ledger import Entry, Kind, Phase, Stretch, Turn


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
