"""Where the time of one process goes, from what it is told of calls, batches and saves. Pure: it is told the time."""

from __future__ import annotations

from dataclasses import dataclass, field

from tfdist.rundir.ledger_lines import TimeKind


@dataclass
class _Call:
    """A `fit`, `evaluate` or `predict` under way.

    Attributes:
        trains: Whether it is a `fit`.
        stepped: Whether it has done a batch.
        evaluated: Whether an evaluation inside of it has done a batch.
    """

    trains: bool
    stepped: bool = False
    evaluated: bool = False


@dataclass(frozen=True)
class Taken:
    """What was counted in a stretch of time.

    Attributes:
        seconds: Where they went; they add up to the stretch.
        steps: Training batches done.
        step: Training batches of the run that were done at the end.
    """

    seconds: dict[TimeKind, float] = field(default_factory=dict)
    steps: int = 0
    step: int = 0


class Tally:
    """Counts seconds by what they were spent on.

    It is start-up until the workers have formed their cluster, and from then on building until the first `fit`,
    `evaluate` or `predict`; from the begin of each of them until its first batch is done, compiling. Training batches
    and the moments between two of them are steps; what comes between the last batch of an epoch and the first of the
    next is a callback's, but for evaluations and parts. Outside of all calls after the first it is other. A part, such
    as a save, is what it is called wherever it comes.

    Args:
        now: The time, in seconds.
    """

    def __init__(self, now: float) -> None:
        self._now = now
        self._seconds: dict[TimeKind, float] = {}
        self._steps = self._step = 0
        self._calls: list[_Call] = []
        self._parts: list[TimeKind] = []
        self._formed = self._stepped = self._running = self._between = False
        self._waited = self._due = 0.0
        self._forgives = True

    def begin_call(self, *, trains: bool, now: float) -> None:
        """A `fit` begins, or an `evaluate` or `predict`, maybe inside of another call."""
        self._charge(now)
        # An evaluation inside of a fit compiles once for all.
        compiled = not trains and bool(self._calls) and self._calls[-1].evaluated
        self._calls.append(_Call(trains, stepped=compiled))

    def end_call(self, now: float) -> None:
        """The innermost call is over."""
        self._charge(now)
        ended = self._calls.pop()
        self._running = False
        self._between = True
        if self._calls and ended.stepped and not ended.trains:
            self._calls[-1].evaluated = True

    def begin_batches(self, now: float) -> None:
        """Batches begin."""
        self._charge(now)
        self._running = True
        if self._calls and self._calls[-1].trains:
            self._between = False

    def end_batches(self, trained: int, step: int, now: float) -> None:
        """They are done, with `trained` training batches among them, and with them `step` of the run."""
        # What the first batches waited for belongs to compiling.
        self._forgives = self._forgives or self._kind() is TimeKind.COMPILE
        self._charge(now)
        self._running = False
        self._stepped = True
        if self._calls:
            self._calls[-1].stepped = True
        self._steps += trained
        self._step = step

    def leave_steps(self, now: float) -> None:
        """What comes until the next training batch is no part of the steps."""
        self._charge(now)
        self._between = True

    def begin_part(self, kind: TimeKind, now: float) -> None:
        """The process does one thing that is accounted for by itself, maybe inside of another."""
        self._charge(now)
        self._parts.append(kind)

    def end_part(self, now: float) -> None:
        """The innermost of them is over."""
        self._charge(now)
        self._formed |= self._parts.pop() is TimeKind.FORMING

    def waited(self, total: float) -> None:
        """So many seconds have training steps waited for their data since the process began; they are no step time."""
        if not self._forgives:
            self._due += max(0.0, total - self._waited)
        self._waited = total
        self._forgives = False

    def take(self, now: float) -> Taken:
        """What was counted since the last time, or the begin."""
        self._charge(now)
        seconds = {kind: spent for kind, spent in self._seconds.items() if spent}
        # A wait longer than the stretch is taken off the steps of the next ones.
        waited = min(self._due, seconds.get(TimeKind.STEP, 0.0))
        if waited:
            self._due -= waited
            seconds[TimeKind.STEP] -= waited
            seconds[TimeKind.INPUT] = waited
        taken = Taken(seconds, self._steps, self._step)
        self._seconds, self._steps = {}, 0
        return taken

    def _charge(self, now: float) -> None:
        kind = self._kind()
        self._seconds[kind] = self._seconds.get(kind, 0.0) + max(0.0, now - self._now)
        self._now = max(self._now, now)

    def _kind(self) -> TimeKind:
        """What the process does now."""
        if self._parts:
            return self._parts[-1]
        if not self._calls:
            return self._kind_outside()
        call = self._calls[-1]
        if not call.stepped:
            return TimeKind.COMPILE
        if not call.trains:
            return TimeKind.EVALUATION
        return TimeKind.CALLBACK if self._between else TimeKind.STEP

    def _kind_outside(self) -> TimeKind:
        """Outside of all calls: `train_on_batch` and its kin are steps too."""
        if self._running:
            return TimeKind.STEP if self._stepped else TimeKind.COMPILE
        if self._stepped:
            return TimeKind.OTHER
        return TimeKind.BUILDING if self._formed else TimeKind.START_UP
