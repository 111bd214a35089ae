"""Messages between the launchers of one job: the events, their form on the line, and how often states are sent."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tfdist.errors import RunDirError
from tfdist.net.line_socket import LineError, Message
from tfdist.rundir.failure import Failure
from tfdist.rundir.state_records import WorkerState

_MOST_DELAY_SECONDS = 3600
"""Of a restart; the restart policy waits a minute at most."""
_PER_SECOND = 50
"""States that the leader is told in a second, from all workers of the job: each costs it about 0.4 ms, as it is written
down, too."""
_LEAST_SECONDS = 1.0
_MOST_SECONDS = 20.0


@dataclass(frozen=True)
class Stop:
    """A stop that somebody asked for.

    Attributes:
        code: What every launcher exits with.
        why: Who asked and how, in words.
        advice: Why the exit code is not that of whoever asked, and what to do; empty where it is.
    """

    code: int
    why: str
    advice: str = ""


@dataclass(frozen=True)
class WorkerDone:
    """A worker elsewhere is done with exit code `code`, or its process has ended with it."""

    index: int
    code: int
    gone: bool


@dataclass(frozen=True)
class Released:
    """Every worker of the job is done; `code` is the job's exit code."""

    code: int


@dataclass(frozen=True)
class AttemptEnded:
    """The attempt ends: workers elsewhere failed, or the job was stopped there."""

    failures: tuple[Failure, ...] = ()
    stop: Stop | None = None
    blamed: tuple[int, ...] = ()


@dataclass(frozen=True)
class Beat:
    """To the leader: the state of a worker."""

    state: WorkerState


@dataclass(frozen=True)
class DumpStacks:
    """From the leader: the job hangs, and every worker is to dump its stacks."""


@dataclass(frozen=True)
class WorkerStacks:
    """To the leader: the stacks of a worker.

    Attributes:
        index: The worker.
        where: Where its main thread is, in one line; empty when it did not answer.
        text: The Python stacks of its threads.
        called: Where functions of the user are that run in other threads for the main one; empty when none do.
        log: Path of its log, on its machine.
    """

    index: int
    where: str
    text: str
    called: str = ""
    log: str = ""


@dataclass(frozen=True)
class Posted:
    """To the leader: what a worker tells the chief's process.

    Attributes:
        subject: What it is about.
        content: In JSON's types.
    """

    subject: str
    content: dict[str, Any]


@dataclass(frozen=True)
class StopRequested:
    """To the leader: another launcher was asked to stop the job."""

    stop: Stop


@dataclass(frozen=True)
class Hold:
    """From the leader: no worker is to begin another batch until it is told where to stop."""

    stop: Stop


@dataclass(frozen=True)
class BatchesBegun:
    """To the leader: how many batches a held worker has begun; None when it is in no `fit`."""

    index: int
    count: int | None


@dataclass(frozen=True)
class StopAt:
    """From the leader: stop once this many batches are done."""

    after: int


@dataclass(frozen=True)
class Restart:
    """From the leader, when all workers of an attempt have ended: another attempt follows.

    Attributes:
        attempt: Its number.
        delay: Seconds until it starts.
        why: What the user is told of it.
    """

    attempt: int
    delay: float
    why: str


@dataclass(frozen=True)
class GiveUp:
    """From the leader, when all workers of an attempt have ended: it was the last.

    Attributes:
        why: Why no other follows; empty where restarts were not asked for.
    """

    why: str


@dataclass(frozen=True)
class Stopped:
    """From the leader, when its part of a job that was stopped is over: the stop as all launchers end by it."""

    stop: Stop


Event = (
    WorkerDone
    | Released
    | AttemptEnded
    | Beat
    | DumpStacks
    | WorkerStacks
    | Posted
    | StopRequested
    | Hold
    | BatchesBegun
    | StopAt
    | Restart
    | GiveUp
    | Stopped
)

_KINDS: dict[str, Callable[..., Event]] = {
    kind.__name__: kind
    for kind in (
        WorkerDone,
        Released,
        AttemptEnded,
        Beat,
        DumpStacks,
        WorkerStacks,
        Posted,
        StopRequested,
        Hold,
        BatchesBegun,
        StopAt,
        Restart,
        GiveUp,
        Stopped,
    )
}


def outlives_attempt(event: Event) -> bool:
    """Returns whether an event that comes while an attempt ends still matters afterwards."""
    if isinstance(event, AttemptEnded):
        return event.stop is not None
    return isinstance(event, Restart | GiveUp | StopRequested | Hold | Stopped)


def _stop(value: Any) -> Stop | None:
    return None if value is None else Stop(int(value["code"]), str(value["why"]), str(value.get("advice", "")))


def _delay(value: Any) -> float:
    if not 0 <= (delay := float(value)) <= _MOST_DELAY_SECONDS:
        raise ValueError(f"expected a delay of {_MOST_DELAY_SECONDS} s at most")
    return delay


def _object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"expected an object. Received: {value!r:.200}")
    return value


_PARTS: dict[str, Callable[[Any], Any]] = {
    "failures": lambda values: tuple(Failure.from_dict(value) for value in values),
    "blamed": lambda values: tuple(int(value) for value in values),
    "stop": _stop,
    "state": WorkerState.from_dict,
    "index": int,
    "code": int,
    "after": int,
    "attempt": int,
    "delay": _delay,
    "gone": bool,
    "where": str,
    "text": str,
    "called": str,
    "log": str,
    "why": str,
    "subject": str,
    "content": _object,
    "count": lambda value: None if value is None else int(value),
}
"""Field -> how it is read; a field of one name has one type in all events."""


def to_message(event: Event) -> Message:
    """The event as it is sent."""
    return {"event": type(event).__name__, **dataclasses.asdict(event)}


def from_message(message: Message) -> Event | None:
    """The event that another launcher sent; None for other messages.

    Raises:
        LineError: The event is not one that this version knows.
    """
    if "event" not in message:
        return None
    try:
        kind = _KINDS[message["event"]]
        return kind(**{name: _PARTS[name](value) for name, value in message.items() if name != "event"})
    except (TypeError, KeyError, ValueError, OverflowError, AttributeError, RunDirError) as error:
        raise LineError(f"a message that is not understood: {error}") from None


def beat_seconds(num_workers: int) -> float:
    """Seconds between two states of a worker that are passed on to the leader; 0 for all that it reports.

    Changes, to another state, limit or attempt, are told at once whatever this is. A worker reports about once in a
    second.
    """
    seconds = num_workers / _PER_SECOND
    return 0.0 if seconds <= _LEAST_SECONDS else min(seconds, _MOST_SECONDS)


def observe_seconds(num_workers: int) -> float:
    """Seconds between two looks at the states of all workers, which take a microsecond or two for each of them."""
    return min(num_workers / 1000, 1.0)


def straggler_seconds(num_workers: int) -> float:
    """Seconds between two looks for stragglers, which sort all workers; those are reported after fifty steps."""
    return min(num_workers / 100, 10.0) if num_workers >= 100 else 0.0


def gather_seconds(num_remote: int) -> float:
    """Seconds in which the leader leaves what others say unread, to take it in together; 0 in jobs of a few hosts.

    Whenever it wakes it looks at what all workers do, which takes longer the more they are.

    Args:
        num_remote: Workers that other launchers start.
    """
    return min(num_remote / 1000, 0.1) if num_remote >= 32 else 0.0
