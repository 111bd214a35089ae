"""Reasons why workers have not joined, in words: progress while the cluster forms, and the error when it does not."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tfdist.cluster.cluster_spec import Cluster
from tfdist.net.connection_attempts import DialOutcome, DialStatus
from tfdist.net.connector import CONNECT_SECONDS
from tfdist.net.handshake import INTRODUCTION_SECONDS, ONE_TOKEN
from tfdist.text import format_ranges, print_line

FIRST_SECONDS = 3.0
"""A cluster that forms at once needs no progress."""
BETWEEN_SECONDS = 5.0
_CHIEF = 0
_SHOWN = 4
_LINES = 20
"""Of one kind in the error: of a cluster of hundreds, they tell as much as all."""
_TAKEN = "something else listens there"
_REFUSED = "refuses the connection: no tfdist launcher waits there, or not any more", "connection refused"
_STRANGER = f"takes the connection, but is no tfdist launcher: {_TAKEN}", _TAKEN
_WORDS = {
    DialStatus.NOT_TRIED: ("has not been tried yet", "not tried yet"),
    DialStatus.RESOLVING: ("has a name that is still being looked up on this host", "its name is being looked up"),
    DialStatus.CONNECTING: ("has not answered yet", "no answer yet"),
    DialStatus.UNRESOLVED: ("has a name that does not resolve on this host", "its name does not resolve"),
    DialStatus.TIMED_OUT: (
        f"does not answer within {CONNECT_SECONDS:g} s: the host is down, or a firewall drops what is sent",
        "timed out",
    ),
    DialStatus.REFUSED: _REFUSED,
    DialStatus.CLOSED: _REFUSED,
    DialStatus.SILENT: (
        f"takes the connection, but says nothing for {INTRODUCTION_SECONDS:g} s: {_TAKEN}, or its host is overloaded",
        _TAKEN,
    ),
    DialStatus.STRANGER: _STRANGER,
    DialStatus.GRPC: _STRANGER,
    DialStatus.MISMATCHED: (f"is answered by one that {{}}. {ONE_TOKEN}", "answered by one that {}"),
    DialStatus.LEFT: ("was there, and has left again", "has left again"),
    DialStatus.MET: ("answers", "answers"),
}


def describe_outcome(seen: DialOutcome) -> str:
    """Returns what was seen at a worker's address and what it means; follows the worker's name."""
    if seen.status is DialStatus.UNREACHABLE:
        return f"cannot be reached: {seen.detail}"
    return _WORDS[seen.status][0].format(seen.detail)


def _brief(seen: DialOutcome) -> str:
    return seen.detail.lower() if seen.status is DialStatus.UNREACHABLE else _WORDS[seen.status][1].format(seen.detail)


def print_progress(text: str) -> None:
    """Writes a line of progress on stderr; a terminal that is gone must not end the job."""
    print_line(text, sys.stderr)


def waiting_text(
    cluster: Cluster,
    missing: Mapping[int, DialOutcome],
    others: Sequence[tuple[str, int]],
    *,
    sees_all: bool = True,
) -> str:
    """Who is here, and whom this launcher waits for.

    Args:
        missing: Workers that this launcher has not met, with what it saw of them.
        others: Host of another launcher and a worker that it has not met, as it says itself.
        sees_all: Whether this launcher dials all others.
    """
    waits = [f"{cluster.workers[index]}, {_brief(seen)}" for index, seen in missing.items()]
    waits = waits or [f"{host} to reach {cluster.workers[index]}" for host, index in others]
    waits = waits or ["them to reach one another"]
    more = f"; and {len(waits) - _SHOWN} more" if len(waits) > _SHOWN else ""
    here = f"{len(cluster) - len(missing)} of {len(cluster)} workers are here"
    here = here if sees_all else f"not all of the {len(cluster)} workers are here"
    return f"{here}; waiting for {'; '.join(waits[:_SHOWN])}{more}"


class Progress:
    """Says who is here when that changes, and not too often."""

    def __init__(self, say: Callable[[str], None], clock: Callable[[], float]) -> None:
        self._say = say
        self._clock = clock
        self._next = clock() + FIRST_SECONDS
        self._said: str | None = None

    @property
    def is_due(self) -> bool:
        """True if enough time has passed since the last line."""
        return self._clock() >= self._next

    def show(self, text: str) -> None:
        """Says `text` if it is new and enough time has passed since the last line."""
        if text != self._said and self.is_due:
            self._say(text)
            self._said = text
            self._next = self._clock() + BETWEEN_SECONDS

    def all_here(self, size: int) -> None:
        """Says that the wait is over, if anything was said of it."""
        if self._said is not None:
            self._say(f"all {size} workers are here")


@dataclass(frozen=True)
class WaitingLauncher:
    """A launcher that is on the line to the chief's, as the error describes it.

    Attributes:
        host: Its machine's name.
        workers: The workers that it starts.
        missing: Workers that it has not met, with what it saw of them.
    """

    host: str
    workers: tuple[int, ...]
    missing: Mapping[int, str]


def absence_lines(
    cluster: Cluster,
    missing: Mapping[int, DialOutcome],
    *,
    came: Mapping[int, str],
    callers: Sequence[WaitingLauncher] | None,
    remote: Sequence[int],
) -> list[str]:
    """Returns what is known of the workers that were not met, a line each, and fewer where there are many.

    Args:
        missing: Workers that this launcher has not met, with what it saw of them.
        came: Workers whose launchers have reached this one, with their hosts.
        callers: The launchers on the line, for the chief's launcher; None for the others.
    """
    said = []
    for index, seen in missing.items():
        though = f", though its launcher on {came[index]} did reach this one" if index in came else ""
        said.append(_Said(index, describe_outcome(seen) + though))
    if callers is not None:
        said += _of_callers([index for index in remote if index not in missing], callers)
    return _at_most(_lines(cluster, said))


def explain_absence(
    cluster: Cluster, lines: Sequence[str], count: str, *, refused: Mapping[str, str], timeout: float
) -> str:
    """The error's text when the cluster did not form in time.

    Args:
        lines: What is known of those that were not met, see `absence_lines`.
        count: How many did not come, in words.
        refused: Addresses whose callers cannot take part, with why.
    """
    strangers = [f"  from {host}, a launcher called that {why}. {ONE_TOKEN}" for host, why in refused.items()]
    known = [*lines, *_at_most(strangers)]
    return "\n".join(
        [
            f"The cluster did not form within {timeout:g} s (--start-timeout): {count}.",
            *(known or _lines(cluster, [_Said(_CHIEF, "answers, but its launcher misses another")])),
            f"Expected: the same `tfdist train --workers ...` started on every host within that time, here "
            f"{cluster.brief}, and each worker's port reachable from every host. Start all of them again.",
        ]
    )


@dataclass(frozen=True)
class _Said:
    """A statement about a worker in the error.

    Attributes:
        index: The worker.
        seen: What was seen of it, in words that follow its name.
        host: The host that saw it; None for this one.
    """

    index: int
    seen: str
    host: str | None = None


def _of_callers(met: Sequence[int], callers: Sequence[WaitingLauncher]) -> list[_Said]:
    """Returns what the chief's launcher knows of the workers elsewhere that it has met itself."""
    linked = {index for caller in callers for index in caller.workers}
    said = [
        _Said(index, f"answers, but has not reached worker {_CHIEF} itself") for index in met if index not in linked
    ]
    return said + [
        _Said(index, seen, caller.host) for caller in callers for index, seen in caller.missing.items() if index in met
    ]


def _lines(cluster: Cluster, said: Sequence[_Said]) -> list[str]:
    """A line for each; where the same is said of many workers, for the first of them and one for the rest."""
    alike: dict[tuple[str, str | None], list[int]] = {}
    for each in said:
        alike.setdefault((each.seen, each.host), []).append(each.index)
    lines = []
    for (seen, host), indices in alike.items():
        prefix = "" if host is None else f"from {host}, "
        shown = indices if len(indices) <= _SHOWN + 1 else indices[:_SHOWN]
        lines += [f"  {prefix}worker {index} ({cluster.workers[index]}) {seen}" for index in shown]
        if rest := sorted(indices[len(shown) :]):
            lines.append(f"  {prefix}the same of {len(rest)} more: workers {format_ranges(rest)}")
    return lines


def _at_most(lines: list[str]) -> list[str]:
    more = len(lines) - _LINES
    return lines if more <= 0 else [*lines[:_LINES], f"  and {more} more of this kind"]
