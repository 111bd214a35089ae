"""Stragglers: which workers are slower than the others, and what that costs, as every step waits for the slowest.

Decides from the workers' states, without effects, and returns the messages for the user.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from tfdist.rundir.state_records import WorkerState
from tfdist.text import format_duration

SLOWER = 1.2
"""A straggler takes more than this many times the median of the others for a step."""

STEPS = 50
"""Steps in a row after which a straggler is reported."""

COST_SHARE = 0.05
COST_SECONDS = 1.0
"""The cost to all workers at which a straggler is reported: this share of the time, and so many seconds in all."""

APART_SECONDS = 60.0
"""Between two reports of the same worker."""

_MARKED = 2.0
"""Factor by which the cost of a straggler must grow or shrink to be reported again."""


@dataclass(frozen=True)
class WorkerLag:
    """One worker's time for a step, compared with the others'.

    Attributes:
        index: The worker.
        busy: Seconds a step that it takes for itself, without waiting for the others.
        others: The median of the same over the other workers.
    """

    index: int
    busy: float
    others: float

    def __post_init__(self) -> None:
        if not (self.busy > 0 and self.others > 0):
            raise ValueError(f"A step takes more than 0 s. Received: busy={self.busy}, others={self.others}")

    @property
    def cost(self) -> float:
        """Seconds that each step of all workers waits for this one; 0 when it is as fast as the others."""
        return max(0.0, self.busy - self.others)

    @property
    def slower(self) -> float:
        """The part by which it is slower than the others: 0.2 for 20 %."""
        return self.busy / self.others - 1

    @property
    def is_straggling(self) -> bool:
        """True if it is slower than the others by more than usual."""
        return self.busy > SLOWER * self.others


def is_worth_a_word(cost: float, seconds: float) -> bool:
    """Returns whether somebody wants to know of a straggler that has cost so many of so many seconds."""
    return cost >= COST_SECONDS and cost >= COST_SHARE * seconds


def lags(states: Iterable[WorkerState]) -> dict[int, WorkerLag]:
    """The lag of every worker that takes steps; empty where fewer than two are known to."""
    newest: dict[int, WorkerState] = {}
    for state in states:
        if state.busy > 0 and not state.state.is_last:
            newest[state.index] = state
    attempt = max((state.attempt for state in newest.values()), default=0)
    busy = {index: state.busy for index, state in newest.items() if state.attempt == attempt}
    if len(busy) < 2:
        return {}
    ordered = sorted(busy.values())
    return {index: WorkerLag(index, own, _median_without(own, ordered)) for index, own in busy.items()}


def _median_without(one: float, ordered: Sequence[float]) -> float:
    """The median of at least two ascending numbers without one of them. They are sorted once for all workers."""
    place = bisect.bisect_left(ordered, one)
    low, high = (len(ordered) - 2) // 2, (len(ordered) - 1) // 2
    return sum(ordered[at + (at >= place)] for at in (low, high)) / 2


@dataclass(frozen=True)
class _Watched:
    """The known facts about one worker.

    Attributes:
        step: Where it was when last seen.
        other_since: The step since which it has differed from `said`; None while it does not.
        cost: Seconds that it has cost all workers since it began to straggle.
        began: The step at which it began to.
        said: What was reported of it last; None when nothing, or that it has caught up.
        patience: Steps in a row that it must differ for before that is reported; doubled each time that it has caught
            up, so that a worker around the limit does not fill the terminal.
        began_at: When it began to, by the clock of the observer.
        said_at: When something was last reported of it.
    """

    step: int
    other_since: int | None = None
    cost: float = 0.0
    began: int = 0
    said: WorkerLag | None = None
    patience: int = STEPS
    began_at: float = 0.0
    said_at: float = -math.inf


class Stragglers:
    """Reports the workers that are slower than the others by more than 20 % for 50 steps in a row.

    Only those are reported that have cost 5 % of the time since they began to be slower, and a second in all, and
    nothing of the same worker within a minute.

    `busy` is a mean over the last 50 steps, so one slow step stands out for 50 steps and no longer, and is not
    reported.
    """

    def __init__(self) -> None:
        self._watched: dict[int, _Watched] = {}
        self._attempt = 0

    def observe(self, states: Mapping[int, WorkerState], now: float) -> list[str]:
        """Takes the newest states of the workers, at any intervals; returns messages, one line each.

        Args:
            states: Worker -> its state.
            now: Seconds, never going back.
        """
        attempt = max((state.attempt for state in states.values()), default=0)
        if attempt != self._attempt:
            self._attempt, self._watched = attempt, {}
        messages = []
        for index, lag in sorted(lags(states.values()).items()):
            state = states[index]
            before = self._watched.get(index)
            if before is None or state.step < before.step:
                before = _Watched(state.step)
            self._watched[index], message = _advance(before, state, lag, now)
            messages += [message] if message else []
        return messages


def _advance(before: _Watched, state: WorkerState, lag: WorkerLag, now: float) -> tuple[_Watched, str]:
    """Returns what is known of a worker after its new state, and the message, empty for none."""
    steps = state.step - before.step
    is_other = lag.is_straggling if before.said is None else _differs(before.said, lag)
    if before.said is None and before.other_since is None:
        before, steps = replace(before, began=state.step, began_at=now, cost=0.0), 0
    since = before.other_since if before.other_since is not None else state.step
    cost = before.cost + lag.cost * steps
    watched = replace(before, step=state.step, other_since=since if is_other else None, cost=cost)
    if not is_other or state.step - since < before.patience or now - before.said_at < APART_SECONDS:
        return watched, ""
    if not lag.is_straggling:
        over = _Watched(state.step, patience=2 * before.patience, said_at=now)
        return over, _caught_up(state, lag, cost, state.step - before.began)
    if not is_worth_a_word(cost, now - before.began_at):
        return watched, ""
    say = _slow if before.said is None else _still_slow
    said = replace(watched, other_since=None, said=lag, said_at=now)
    return said, say(state, lag, cost, state.step - before.began)


def _differs(said: WorkerLag, lag: WorkerLag) -> bool:
    """Returns whether what was reported of a straggler no longer holds."""
    return not lag.is_straggling or not said.cost / _MARKED < lag.cost < said.cost * _MARKED


def _slow(state: WorkerState, lag: WorkerLag, cost: float, steps: int) -> str:
    return (
        f"worker {state.index} ({state.host}) is a straggler: for {steps} steps it has taken {_times(lag)}, "
        f"{100 * lag.slower:.0f} % more; every step of all workers waits {format_duration(lag.cost)} for it, "
        f"{format_duration(cost)} so far"
    )


def _still_slow(state: WorkerState, lag: WorkerLag, cost: float, steps: int) -> str:
    return (
        f"worker {state.index} ({state.host}) is still a straggler: it now takes {_times(lag)}, "
        f"{100 * lag.slower:.0f} % more; every step of all workers waits {format_duration(lag.cost)} for it, "
        f"{format_duration(cost)} in {steps} steps so far"
    )


def _caught_up(state: WorkerState, lag: WorkerLag, cost: float, steps: int) -> str:
    return (
        f"worker {state.index} ({state.host}) is no straggler any more: it takes {_times(lag)}; "
        f"it has cost {format_duration(cost)} in {steps} steps"
    )


def _times(lag: WorkerLag) -> str:
    return f"{format_duration(lag.busy)} a step, where the others take {format_duration(lag.others)}"
