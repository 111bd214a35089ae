"""Activity of a worker: what it is doing and has spent its time on. Pure: every event comes with its time.

Tally of a process's seconds by what they were spent on.
"""

from __future__ import annotations

from dataclasses import dataclass

from tfdist.rundir import State
from tfdist.rundir.ledger_lines import TimeKind

SHORT_SECONDS = 0.2
"""The longest time between two batches, in seconds, that belongs to the steps; a longer one is a callback's."""


@dataclass(frozen=True)
class Limits:
    """The longest time that a worker may take from one move to the next, in seconds.

    Attributes:
        first_step: Until the first batch of a `fit`, `evaluate` or `predict` is done, which compiles; and until the
            cluster has formed.
        step: After it.
    """

    first_step: float
    step: float


@dataclass(frozen=True)
class TimeSpent:
    """The account of an interval of time: what it was spent on.

    Attributes:
        since: When it began.
        until: When it ended.
        seconds: Seconds by kind; they add up to the interval.
        steps: Training batches done.
        step: Training batches of the run that were done with the last of them.
    """

    since: float
    until: float
    seconds: dict[TimeKind, float]
    steps: int
    step: int


@dataclass
class _Call:
    """A `fit`, `evaluate` or `predict` under way.

    Attributes:
        name: Which of them.
        stepped: Whether it has done a batch.
        evaluated: Whether an evaluation inside of it has done a batch.
    """

    name: str
    stepped: bool = False
    evaluated: bool = False

    @property
    def trains(self) -> bool:
        """True if it is a `fit`."""
        return self.name == "fit"


class Activity:
    """The activity of one worker. Times are in seconds.

    Its time is start-up until the workers have formed their cluster, and from then on building until the first `fit`,
    `evaluate` or `predict`; from the start of each of them until its first batch is done, compiling. Training batches
    and the moments between two of them are steps; what comes between the last batch of an epoch and the first of the
    next is a callback's, except evaluations and parts. Outside of all calls after the first it is other. A part, such
    as a save, is counted as its own kind wherever it comes.

    Args:
        limits: How long it may take between moves.
        now: The time.

    Attributes:
        epoch: The epoch it is in, from 0.
        step: Training batches done since the run began.
        begun: Training batches begun since then: several may run in one execution.
        moves: How often it made progress.
        moved: When it last did.
        has_begun: Whether any batch has begun.
        calls: How often a `fit`, `evaluate` or `predict` has begun, those inside of another one not counted.
    """

    def __init__(self, limits: Limits, now: float) -> None:
        self.epoch = self.step = self.begun = self.moves = self.calls = 0
        self.moved = now
        self.has_begun = False
        self._limits = limits
        self._outside = State.STARTING
        self._calls: list[_Call] = []
        self._parts: list[TimeKind] = []
        self._exchanges = 0
        self._traced = (0, 0)
        self._is_forming = self._has_formed = self._has_stepped = self._is_running = self._is_between = False
        self._times = TimeTally(now)
        self._taken = now
        self._trained = self._trained_to = 0

    def state(self, now: float) -> State:
        """Returns what the worker does at the time `now`."""
        if TimeKind.CHECKPOINT in self._parts:
            return State.SAVING
        if not self._calls:
            return State.EXCHANGING if self._is_exchanging() else self._outside
        call = self._calls[-1]
        if not call.stepped:
            return State.COMPILING
        if not call.trains:
            return State.EVALUATING
        return State.STEP if self._is_running or now - self.moved <= SHORT_SECONDS else State.CALLBACK

    def limit(self) -> float | None:
        """Seconds that it may take to the next move; None where it may take any time."""
        if not self._calls and self._outside is State.SAVING:
            return self._limits.step
        if not self._calls and self._is_exchanging():
            return self._limits.step
        if not self._calls:
            return self._limits.first_step if self._is_forming else None
        return self._limits.step if self._calls[-1].stepped else self._limits.first_step

    def take(self, now: float) -> TimeSpent:
        """Returns what the time since the last call, or since the beginning, was spent on."""
        self._charge(now)
        spent = TimeSpent(self._taken, now, self._times.take(), self._trained, self._trained_to)
        self._taken, self._trained = now, 0
        return spent

    def move(self, now: float) -> None:
        """It made progress."""
        self.moves += 1
        self.moved = now

    def enter(self, state: State, now: float) -> None:
        """It does `state` from now on, when it is in no call."""
        self._outside = state
        self.move(now)

    def begin_forming(self, now: float) -> None:
        """It waits for all workers to join."""
        self._is_forming = True
        self.move(now)

    def end_forming(self, now: float) -> None:
        """They have joined."""
        self._is_forming = False
        self.move(now)

    @property
    def call(self) -> str:
        """The `fit`, `evaluate` or `predict` that it is in, the outermost; empty outside of them."""
        return self._calls[0].name if self._calls else ""

    def begin_call(self, name: str, now: float) -> None:
        """It begins a `fit`, or an `evaluate` or `predict`, maybe inside of another call."""
        self._charge(now)
        self.calls += not self._calls
        # An evaluation inside of a fit compiles once for all.
        compiled = name != "fit" and bool(self._calls) and self._calls[-1].evaluated
        self._calls.append(_Call(name, stepped=compiled))
        self.move(now)

    def end_call(self, now: float) -> None:
        """The innermost call is over, whether it returns or raises."""
        self._charge(now)
        ended = self._calls.pop()
        self._is_running = False
        self._is_between = True
        if self._calls and ended.stepped and not ended.trains:
            self._calls[-1].evaluated = True
        self.move(now)

    def begin_batches(self, now: float, training: int = 0) -> None:
        """Batches begin, with so many training batches among them."""
        self._charge(now)
        self.begun = self.step + training
        self.has_begun = self._is_running = True
        if not self._calls:
            self._outside = State.STEP if self._outside is State.STARTING else self._outside
        elif self._calls[-1].trains:
            self._is_between = False

    def end_batches(self, *, trained: int, now: float) -> None:
        """They are done, with `trained` training batches among them."""
        self._charge(now)
        self._is_running = False
        self._has_stepped = True
        if self._calls:
            self._calls[-1].stepped = True
        self.step += trained
        self.begun = self.step
        self._trained += trained
        self._trained_to = self.step
        self.move(now)

    def leave_steps(self, now: float) -> None:
        """Leaves the steps: what comes until the next training batch is no part of them."""
        self._charge(now)
        self._is_between = True

    def begin_exchange(self, now: float) -> None:
        """A collective begins that the script calls, maybe beside another."""
        self._exchanges += 1
        self.move(now)

    def end_exchange(self, now: float) -> None:
        """It is over."""
        self._exchanges -= 1
        self.move(now)

    def see_traced(self, begun: int, ended: int, now: float) -> None:
        """So many collectives have begun and ended inside of functions since the process began."""
        if (begun, ended) != self._traced:
            self._traced = (begun, ended)
            self.move(now)

    def wait_for_data(self, total: float) -> None:
        """So many seconds have training steps waited for data since the process began."""
        self._times.wait_for_data(total)

    def begin_part(self, kind: TimeKind, now: float) -> None:
        """It does something that is counted as its own kind, maybe inside of another part."""
        self._charge(now)
        self._parts.append(kind)
        self.move(now)

    def end_part(self, now: float) -> None:
        """The innermost part is over, whether it succeeded or failed."""
        self._charge(now)
        self._has_formed |= self._parts.pop() is TimeKind.FORMING
        self.move(now)

    def _is_exchanging(self) -> bool:
        begun, ended = self._traced
        return self._exchanges > 0 or begun > ended

    def _charge(self, now: float) -> None:
        self._times.charge(self._kind(), now)

    def _kind(self) -> TimeKind:
        """Returns what its time counts as now."""
        if self._parts:
            return self._parts[-1]
        if not self._calls:
            return self._kind_outside()
        call = self._calls[-1]
        if not call.stepped:
            return TimeKind.COMPILE
        if not call.trains:
            return TimeKind.EVALUATION
        return TimeKind.CALLBACK if self._is_between else TimeKind.STEP

    def _kind_outside(self) -> TimeKind:
        """Outside of all calls: `train_on_batch` and its kin are steps too."""
        if self._is_running:
            return TimeKind.STEP if self._has_stepped else TimeKind.COMPILE
        if self._has_stepped:
            return TimeKind.OTHER
        return TimeKind.BUILDING if self._has_formed else TimeKind.START_UP


class TimeTally:
    """Adds up seconds by kind, and takes the time that steps waited for data off the time of the steps.

    Args:
        now: The time, in seconds.
    """

    def __init__(self, now: float) -> None:
        self._now = now
        self._seconds: dict[TimeKind, float] = {}
        self._waited = self._due = 0.0
        self._forgives = True

    def charge(self, kind: TimeKind, now: float) -> None:
        """Adds the time since the last charge to `kind`."""
        # What the first batches waited for belongs to compiling.
        self._forgives = self._forgives or kind is TimeKind.COMPILE
        self._seconds[kind] = self._seconds.get(kind, 0.0) + max(0.0, now - self._now)
        self._now = max(self._now, now)

    def wait_for_data(self, total: float) -> None:
        """Notes the seconds that training steps have waited for data since the process began: no step time."""
        if not self._forgives:
            self._due += max(0.0, total - self._waited)
        self._waited = total
        self._forgives = False

    def take(self) -> dict[TimeKind, float]:
        """The seconds that were charged since the last call, or since the beginning."""
        seconds = {kind: spent for kind, spent in self._seconds.items() if spent}
        # A wait that is longer than the interval is taken off the steps of the next ones.
        waited = min(self._due, seconds.get(TimeKind.STEP, 0.0))
        if waited:
            self._due -= waited
            seconds[TimeKind.STEP] -= waited
            seconds[TimeKind.INPUT] = waited
        self._seconds = {}
        return seconds
