"""How the launchers of one job tell one another what happens, from the job's start to its end.

The launcher that has the chief leads: it hears of every worker, decides for all, and passes news on. In a job of one
launcher, `Alone` leads and has nobody to tell.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from tfdist.launch.failures import Failure, first_to_last
from tfdist.launch.lines import LineError, LineSocket, Message


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
class Done:
    """A worker elsewhere is done with exit code `code`, or has left with it."""

    index: int
    code: int
    gone: bool


@dataclass(frozen=True)
class Released:
    """Every worker of the job is done; `code` is the job's exit code."""

    code: int


@dataclass(frozen=True)
class Ended:
    """The job ends: workers elsewhere failed or somebody stopped it there."""

    failures: tuple[Failure, ...] = ()
    stop: Stop | None = None
    blamed: tuple[int, ...] = ()


Event = Done | Released | Ended


class Control(Protocol):
    """A launcher's line to the other launchers of its job."""

    leads: bool
    """Whether this launcher decides for all."""
    remote: tuple[int, ...]
    """Workers that other launchers start."""

    def sockets(self) -> Sequence[LineSocket]:
        """What to wait on for `events`."""

    def events(self) -> list[Event]:
        """What has come; never waits."""

    def tell(self, event: Event) -> None:
        """Tells the other launchers."""

    def settle(self, failures: Sequence[Failure], timeout: float) -> tuple[Failure, ...]:
        """Joins this launcher's failures with the others', so that all name the same first one.

        Waits for the others `timeout` seconds at most, and does without those that do not answer.
        """

    def close(self) -> None:
        """Hangs up."""


class Alone:
    """The control of a job that one launcher runs by itself."""

    leads = True
    remote: tuple[int, ...] = ()

    def sockets(self) -> Sequence[LineSocket]:
        return ()

    def events(self) -> list[Event]:
        return []

    def tell(self, event: Event) -> None:
        """There is nobody to tell."""

    def settle(self, failures: Sequence[Failure], timeout: float) -> tuple[Failure, ...]:
        return first_to_last(failures)

    def close(self) -> None:
        """There is nothing to close."""


def to_message(event: Event) -> Message:
    """The event as it goes over the line."""
    if isinstance(event, Done):
        return {"done": {"index": event.index, "code": event.code, "gone": event.gone}}
    if isinstance(event, Released):
        return {"released": event.code}
    stop = None if event.stop is None else {"code": event.stop.code, "why": event.stop.why}
    failures = [failure.to_json() for failure in event.failures]
    return {"end": {"failures": failures, "stop": stop, "blamed": list(event.blamed)}}


def from_message(message: Message) -> Event | None:
    """The event that came over the line; None for other messages.

    Raises:
        LineError: The message is not one of this version's.
    """
    try:
        if "done" in message:
            return Done(**message["done"])
        if "released" in message:
            return Released(int(message["released"]))
        if "end" in message:
            end = message["end"]
            failures = tuple(Failure.from_json(failure) for failure in end["failures"])
            return Ended(failures, Stop(**end["stop"]) if end["stop"] else None, tuple(end["blamed"]))
    except (TypeError, KeyError, ValueError) as error:
        raise LineError(f"a message that is not understood: {error}") from None
    return None
