"""Account of a run's wall time: attempts, their spans, and their sums; what each restart took; all of it in words."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from tfdist.rundir.ledger_lines import AttemptPhase, TimeKind
from tfdist.text import format_clock, format_count, format_time

Seconds = Mapping[TimeKind, float]
ENDING, DELAY, OTHER = "ending", "delay", "other"
STARTING = (TimeKind.START_UP, TimeKind.FORMING, TimeKind.BUILDING, TimeKind.RESTORE, TimeKind.COMPILE)
PARTS = (ENDING, DELAY, *(kind.value for kind in STARTING), OTHER)
"""In the order in which they come."""
_STEPPING = (TimeKind.STEP, TimeKind.INPUT, TimeKind.REPLAY)
LABELS: Mapping[TimeKind, str] = MappingProxyType(
    {
        TimeKind.STEP: "training steps that count",
        TimeKind.INPUT: "waiting for data",
        TimeKind.EVALUATION: "evaluation",
        TimeKind.CHECKPOINT: "waiting for checkpoints and saves",
        TimeKind.CALLBACK: "between epochs: callbacks, data set-up",
        TimeKind.COMPILE: "first batches, which compile",
        TimeKind.RESTORE: "restoring a checkpoint",
        TimeKind.START_UP: "start-up: processes, imports",
        TimeKind.FORMING: "start-up: workers find one another",
        TimeKind.BUILDING: "start-up: data, model",
        TimeKind.RESTART: "lost to restarts",
        TimeKind.REPLAY: "steps done again later",
        TimeKind.OTHER: "other",
    }
)
"""Every kind, in the order in which it is shown, and in words."""


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


@dataclass(frozen=True)
class Recovery:
    """One restart that reached a step.

    Attributes:
        attempt: The number of the attempt that it started.
        seconds: Part -> seconds. `ending` is from the notice until no worker was left, `delay` from then until they
            were started again; the others are kinds of time of the attempt until its first batch was done.
        again: Steps done since the last restart that reached a step, which this or a later attempt does again.
    """

    attempt: int
    seconds: Mapping[str, float]
    again: int

    @property
    def whole(self) -> float:
        """Seconds from the notice to the first step."""
        return sum(self.seconds.values())


def recoveries(attempts: Sequence[AttemptAccount]) -> tuple[Recovery, ...]:
    """Every restart of a run that its launcher recorded and that reached a step, in order."""
    found: list[Recovery] = []
    again = 0
    for before, after in zip(attempts, attempts[1:], strict=False):
        again += before.lost
        seconds = _seconds(before, after)
        if seconds is not None:
            found.append(Recovery(after.number, seconds, again))
        if after.begun_at is not None:
            again = 0
    return tuple(found)


def _seconds(before: AttemptAccount, after: AttemptAccount) -> dict[str, float] | None:
    first = next((place for place, span in enumerate(after.spans) if span.last > span.first), None)
    if after.opens or first is None or before.noticed is None or before.ended is None:
        return None
    # The interval of the first step may have further ones.
    spent = total(span.seconds for span in after.spans[: first + 1])
    starting = {kind.value: spent.get(kind, 0.0) for kind in STARTING}
    rest = sum(seconds for kind, seconds in spent.items() if kind not in (*STARTING, *_STEPPING))
    parts = {ENDING: before.ended - before.noticed, DELAY: max(0.0, after.since - before.ended)}
    return {**parts, **starting, OTHER: max(0.0, rest)}


def percent(part: float, whole: float) -> str:
    """`83.1 %`, or `-` when the whole is 0."""
    return f"{100 * part / whole:.1f} %" if whole else "-"


def headlines(account: Account) -> list[str]:
    """The wall time, the goodput and what happened, one sentence each."""
    steps = format_count(account.steps, "training step")
    lines = [
        f"goodput {percent(account.goodput, 1)}: {format_clock(account.seconds[TimeKind.STEP])} of "
        f"{format_clock(account.wall)} wall time went into the {steps} that count"
    ]
    starts, restarts = len(account.attempts) - account.restarts, account.restarts
    if len(account.attempts) > 1:
        away = f", {format_clock(account.away)} between them not counted" if starts > 1 else ""
        started = f"{format_count(starts, 'start')} of tfdist train{away}"
        lines.append(f"{started}; {format_count(restarts, 'restart')} by it")
    if account.lost:
        lines.append(f"{format_count(account.lost, 'step')} done again, because they came after the last checkpoint")
    if account.attempts[-1].phase is AttemptPhase.RUNNING:
        lines.append(f"up to {format_time(account.attempts[-1].at)}: the run goes on, or its launcher was killed")
    if account.damaged:
        lines.append(f"{format_count(account.damaged, 'line')} of the ledger cannot be read and count as those around")
    return lines


def endings(account: Account) -> list[str]:
    """Returns how each attempt ended."""
    *earlier, last = account.attempts
    killed = "its launcher was killed"
    return [*(_ending(attempt, killed) for attempt in earlier), _ending(last, f"not yet, or {killed}")]


def _ending(attempt: AttemptAccount, unheard: str) -> str:
    return unheard if attempt.phase is AttemptPhase.RUNNING else attempt.why or attempt.phase.value


def steps_of(attempt: AttemptAccount) -> str:
    """The steps from and to which an attempt trained, and how many of them are done again."""
    if attempt.begun_at is None:
        return "-"
    again = f", {attempt.lost:,} again" if attempt.lost else ""
    return f"{attempt.begun_at:,} to {attempt.reached:,}{again}"
