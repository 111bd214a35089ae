"""What the launchers of one job tell one another, and how it goes over the line."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tfdist.errors import RunDirError
from tfdist.net.line_socket import LineError, Message
from tfdist.rundir.failure import Failure
from tfdist.rundir.worker_state import WorkerState


@dataclass(frozen=True)
class Stop:
    """Somebody ended the job on purpose.

    Attributes:
        code: What every launcher exits with.
        why: Who and how, in words.
    """

    code: int
    why: str


@dataclass(frozen=True)
class WorkerDone:
    """A worker elsewhere is done with exit code `code`, or has left with it."""

    index: int
    code: int
    gone: bool


@dataclass(frozen=True)
class Released:
    """Every worker of the job is done; `code` is the job's exit code."""

    code: int


@dataclass(frozen=True)
class AttemptEnded:
    """The attempt ends: workers elsewhere failed or somebody stopped the job there."""

    failures: tuple[Failure, ...] = ()
    stop: Stop | None = None
    blamed: tuple[int, ...] = ()


@dataclass(frozen=True)
class Beat:
    """To the leader: what a worker does."""

    state: WorkerState


@dataclass(frozen=True)
class DumpStacks:
    """From the leader: nothing moves; every worker is to say where it is."""


@dataclass(frozen=True)
class WorkerStacks:
    """To the leader: where a worker is.

    Attributes:
        index: The worker.
        where: In one line; empty when it did not answer.
        text: The Python stacks of its threads.
        called: Where functions of the user are that run in other threads for the main one; empty when none does.
        log: Path of its log, on its machine.
    """

    index: int
    where: str
    text: str
    called: str = ""
    log: str = ""


@dataclass(frozen=True)
class StopRequested:
    """To the leader: somebody asked another launcher to stop the job."""

    stop: Stop


@dataclass(frozen=True)
class Hold:
    """From the leader: no worker is to begin another batch before it is told where to stop."""

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
    """From the leader, when all workers of an attempt have ended: there is another one.

    Attributes:
        attempt: Its number.
        delay: Seconds until it begins.
        why: What is said of it.
    """

    attempt: int
    delay: float
    why: str


@dataclass(frozen=True)
class GiveUp:
    """From the leader, when all workers of an attempt have ended: it was the last.

    Attributes:
        why: Why there is no other; empty where none was asked for.
    """

    why: str


Event = (
    WorkerDone
    | Released
    | AttemptEnded
    | Beat
    | DumpStacks
    | WorkerStacks
    | StopRequested
    | Hold
    | BatchesBegun
    | StopAt
    | Restart
    | GiveUp
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
        StopRequested,
        Hold,
        BatchesBegun,
        StopAt,
        Restart,
        GiveUp,
    )
}


def outlives_attempt(event: Event) -> bool:
    """Whether an event that comes while an attempt is being wound up still matters afterwards."""
    if isinstance(event, AttemptEnded):
        return event.stop is not None
    return isinstance(event, Restart | GiveUp | StopRequested | Hold)


def _stop(value: Any) -> Stop | None:
    return None if value is None else Stop(int(value["code"]), str(value["why"]))


_PARTS: dict[str, Callable[[Any], Any]] = {
    "failures": lambda values: tuple(Failure.from_dict(value) for value in values),
    "blamed": lambda values: tuple(int(value) for value in values),
    "stop": _stop,
    "state": WorkerState.from_dict,
    "index": int,
    "code": int,
    "after": int,
    "attempt": int,
    "delay": float,
    "gone": bool,
    "where": str,
    "text": str,
    "called": str,
    "log": str,
    "why": str,
    "count": lambda value: None if value is None else int(value),
}
"""Field -> how it is read; fields of one name are of one kind in all events."""


def to_message(event: Event) -> Message:
    """The event as it goes over the line."""
    return {"event": type(event).__name__, **dataclasses.asdict(event)}


def from_message(message: Message) -> Event | None:
    """The event that came over the line; None for other messages.

    Raises:
        LineError: The message is not one of this version's.
    """
    if "event" not in message:
        return None
    try:
        kind = _KINDS[message["event"]]
        return kind(**{name: _PARTS[name](value) for name, value in message.items() if name != "event"})
    except (TypeError, KeyError, ValueError, AttributeError, RunDirError) as error:
        raise LineError(f"a message that is not understood: {error}") from None
