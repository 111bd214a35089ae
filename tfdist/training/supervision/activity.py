"""What a worker is doing, from what it is told of calls and executions. Pure: it is told the time, too."""

from __future__ import annotations

from dataclasses import dataclass

from tfdist.rundir import State

SHORT_SECONDS = 0.2
"""What happens between two batches is a callback's when it takes longer than this; else it belongs to the steps."""


@dataclass(frozen=True)
class Limits:
    """How long a worker may take from one move to the next, in seconds.

    Attributes:
        first_step: Until the first batch of a `fit`, `evaluate` or `predict` is done, which compiles; and until the
            cluster has formed.
        step: After it.
    """

    first_step: float
    step: float


@dataclass
class _Call:
    """A `fit`, `evaluate` or `predict` under way.

    Attributes:
        trains: Whether it is a `fit`.
        stepped: Whether it has done a batch.
        running: Whether a batch runs now.
        evaluated: Whether an evaluation inside of it has done a batch.
    """

    trains: bool
    stepped: bool = False
    running: bool = False
    evaluated: bool = False


class Activity:
    """The state of one worker. Times are in seconds since 1970.

    Args:
        limits: How long it may take between moves.
        now: The time.

    Attributes:
        epoch: The epoch it is in, from 0.
        step: Training batches done since the run began.
        moves: How often it got on.
        moved: When it last did.
        has_begun: Whether any batch has begun.
    """

    def __init__(self, limits: Limits, now: float) -> None:
        self.epoch = self.step = self.moves = 0
        self.moved = now
        self.has_begun = False
        self._limits = limits
        self._outside = State.STARTING
        self._is_forming = False
        self._calls: list[_Call] = []
        self._saves = 0

    def state(self, now: float) -> State:
        """What the worker does at the time `now`."""
        if self._saves:
            return State.SAVING
        if not self._calls:
            return self._outside
        call = self._calls[-1]
        if not call.stepped:
            return State.COMPILING
        if not call.trains:
            return State.EVALUATING
        return State.STEP if call.running or now - self.moved <= SHORT_SECONDS else State.CALLBACK

    def limit(self) -> float | None:
        """Seconds that it may take to the next move; None where it may take any time."""
        if not self._calls:
            return self._limits.first_step if self._is_forming else None
        return self._limits.step if self._calls[-1].stepped else self._limits.first_step

    def move(self, now: float) -> None:
        """It got on."""
        self.moves += 1
        self.moved = now

    def be(self, state: State, now: float) -> None:
        """It does `state` from now on, when it is in no call."""
        self._outside = state
        self.move(now)

    def begin_forming(self, now: float) -> None:
        """It waits for all workers to come."""
        self._is_forming = True
        self.move(now)

    def end_forming(self, now: float) -> None:
        """They have come."""
        self._is_forming = False
        self.move(now)

    def begin_call(self, *, trains: bool, now: float) -> None:
        """It begins a `fit`, or an `evaluate` or `predict`, maybe inside of another call."""
        # An evaluation inside of a fit compiles once for all.
        compiled = not trains and bool(self._calls) and self._calls[-1].evaluated
        self._calls.append(_Call(trains, stepped=compiled))
        self.move(now)

    def end_call(self, now: float) -> None:
        """The innermost call is over, whether it returns or raises."""
        ended = self._calls.pop()
        if self._calls and ended.stepped and not ended.trains:
            self._calls[-1].evaluated = True
        self.move(now)

    def begin_batches(self) -> None:
        """Batches begin."""
        self.has_begun = True
        if self._calls:
            self._calls[-1].running = True
        elif self._outside is State.STARTING:
            self._outside = State.STEP

    def end_batches(self, *, trained: int, now: float) -> None:
        """They are done, with `trained` training batches among them."""
        self.step += trained
        if self._calls:
            self._calls[-1].running = False
            self._calls[-1].stepped = True
        self.move(now)

    def begin_save(self, now: float) -> None:
        """It begins to save, maybe inside of another save."""
        self._saves += 1
        self.move(now)

    def end_save(self, now: float) -> None:
        """It has saved, or failed to."""
        self._saves -= 1
        self.move(now)
