"""Reader of the ledger of a run directory."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType

from tfdist.errors import RunDirError
from tfdist.launch.requeue_policy import resumed_steps
from tfdist.reports.ledger.account import Account, AttemptAccount, Span
from tfdist.rundir import ledger_lines
from tfdist.rundir.layout import RunDir
from tfdist.rundir.ledger_lines import AttemptPhase, LedgerEntry, LedgerEvent, LedgerInterval, TimeKind
from tfdist.rundir.run_snapshot import read_run

MAX_SPANS = 4096
"""Of one attempt: more are merged in pairs, so that an account of months is as small as one of a day."""
_KINDS = {kind.value: kind for kind in TimeKind}


def build_account(
    entries: Iterable[LedgerEntry],
    damaged: int = 0,
    max_spans: int = MAX_SPANS,
    resumed: Mapping[int, int] = MappingProxyType({}),
) -> Account | None:
    """The account of a run; None while its workers have not been started.

    Args:
        entries: The lines of its ledger, in their order; each is looked at once.
        damaged: How many could not be read.
        max_spans: Spans of one attempt, about; more are merged.
        resumed: Attempt -> the step that it resumed after, to which the one before it had come at least.
    """
    builder = _Builder(max_spans)
    for entry in entries:
        builder.take(entry)
    for before, after in itertools.pairwise(builder.attempts):
        before.told = max(before.told, resumed.get(after.number, 0))
    attempts = _without_lost([attempt.done() for attempt in builder.attempts])
    return Account(tuple(attempts), damaged) if attempts else None


@dataclass(slots=True)
class _OpenSpan:
    """A `Span` that grows."""

    since: float
    at: float
    seconds: dict[TimeKind, float]
    first: int = 0
    last: int = 0

    @property
    def trains(self) -> bool:
        return self.last > self.first

    def add(self, other: _OpenSpan) -> None:
        """Appends the span right behind it."""
        self.at = other.at
        for kind, spent in other.seconds.items():
            self.seconds[kind] = self.seconds.get(kind, 0.0) + spent
        if other.trains:
            self.first = self.first if self.trains else other.first
            self.last = other.last

    def done(self) -> Span:
        return Span(self.since, self.at, self.seconds, self.first, self.last)


@dataclass
class _OpenAttempt:
    """An attempt that grows."""

    number: int
    opens: bool
    max_spans: int
    spans: list[_OpenSpan]
    heard: bool = False
    phase: AttemptPhase = AttemptPhase.RUNNING
    why: str = ""
    told: int = 0
    noticed: float | None = None
    ended: float | None = None
    width: float = 0.0
    has_trained: bool = False

    def lay(self, span: _OpenSpan) -> None:
        """Appends a span; of a long attempt several become one, except up to its first step, which ends a recovery."""
        last = self.spans[-1]
        if last.at - last.since < self.width:
            last.add(span)
            return
        self.spans.append(span)
        if len(self.spans) > self.max_spans and self.has_trained:
            self._merge_pairs()
        self.has_trained = self.has_trained or span.trains

    def _merge_pairs(self) -> None:
        first = next(place for place, span in enumerate(self.spans) if span.trains) + 1
        kept, rest = self.spans[:first], self.spans[first:]
        for one, other in zip(rest[::2], rest[1::2], strict=False):
            one.add(other)
        self.spans = kept + rest[::2]
        self.width = 2 * (self.spans[-1].at - self.spans[0].since) / self.max_spans

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
class _Builder:
    """Lays lines on the wall time, each behind the one before."""

    max_spans: int
    attempts: list[_OpenAttempt] = field(default_factory=list)
    now: float = 0.0

    def take(self, entry: LedgerEntry) -> None:
        """Takes the next line."""
        if isinstance(entry, LedgerEvent) and entry.phase is AttemptPhase.RUNNING:
            self._begin(entry)
        elif self.attempts and entry.attempt == self.attempts[-1].number:
            if isinstance(entry, LedgerEvent):
                self._end(entry)
            else:
                self._add(entry)

    def _begin(self, event: LedgerEvent) -> None:
        """Starts another attempt; without a start of its own its job is that of the attempt before."""
        if event.since is not None or not self.attempts:
            self.now = max(self.now, event.at if event.since is None else min(event.since, event.at))
            self._append(event.attempt, opens=True)
            self._fill(event.at, TimeKind.START_UP)
            return
        self._fill(event.at, TimeKind.RESTART)
        self._append(event.attempt, opens=False)

    def _append(self, number: int, *, opens: bool) -> None:
        self.attempts.append(_OpenAttempt(number, opens, self.max_spans, [_OpenSpan(self.now, self.now, {})]))

    def _add(self, interval: LedgerInterval) -> None:
        attempt = self.attempts[-1]
        self._fill(interval.since, TimeKind.OTHER if attempt.heard else TimeKind.START_UP)
        attempt.heard = True
        since, at = max(self.now, interval.since), max(self.now, interval.at)
        # Intervals of one machine do not overlap, unless its clock was set, which must not break the sum.
        part = (at - since) / (interval.at - interval.since) if interval.at > interval.since else 0.0
        seconds = {_KINDS[kind]: spent * part for kind, spent in interval.seconds.items()}
        rest = at - since - sum(seconds.values())
        seconds[TimeKind.OTHER] = seconds.get(TimeKind.OTHER, 0.0) + rest
        attempt.lay(_OpenSpan(since, at, seconds, max(0, interval.step - interval.steps), interval.step))
        self.now = at

    def _end(self, event: LedgerEvent) -> None:
        attempt = self.attempts[-1]
        failed = event.phase in (AttemptPhase.RESTARTING, AttemptPhase.FAILED)
        self._fill(event.at, TimeKind.RESTART if failed else TimeKind.OTHER)
        attempt.phase = event.phase
        attempt.why = event.why
        attempt.told = event.step or 0
        attempt.ended = event.at
        if failed:
            # By another machine's clock it may have been noticed later than it ended.
            attempt.noticed = event.at if event.noticed is None else min(event.noticed, event.at)

    def _fill(self, at: float, kind: TimeKind) -> None:
        """Fills the time that no line accounts for."""
        if at > self.now:
            self.attempts[-1].lay(_OpenSpan(self.now, at, {kind: at - self.now}))
            self.now = at


def _without_lost(attempts: Sequence[AttemptAccount]) -> list[AttemptAccount]:
    """The attempts, with the time of steps that later ones do again moved to replay."""
    left: list[AttemptAccount] = []
    again: int | None = None
    for attempt in reversed(attempts):
        left.append(attempt if again is None else _replayed(attempt, again))
        begun = attempt.begun_at
        again = again if begun is None else begun if again is None else min(again, begun)
    return left[::-1]


def _replayed(attempt: AttemptAccount, again: int) -> AttemptAccount:
    """The attempt, with its steps after `again` replayed."""
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


def read_account(run_dir: str | Path) -> tuple[str, Account]:
    """The name of the run in a run directory, and where its time went until now.

    Raises:
        RunDirError: The directory is not a run's, or has no ledger, or nothing is in it yet.
    """
    run = RunDir(Path(run_dir))
    name = read_run(run).name or "run"
    lines = damaged = 0

    def entries() -> Iterator[ledger_lines.LedgerEntry]:
        nonlocal lines, damaged
        for entry in ledger_lines.scan_ledger(run.ledger_file):
            if entry is None:
                damaged += 1
            else:
                lines += 1
                yield entry

    found = build_account(entries(), resumed=resumed_steps(run.resumes_file))
    if found is None:
        raise RunDirError(
            f"The ledger {run.ledger_file} does not say yet that workers were started. Expected a run whose workers "
            f"have started. Received: {lines} lines, and {damaged} that are damaged."
        )
    return name, dataclasses.replace(found, damaged=damaged)
