"""Tells the user whom a launcher waits for while the cluster forms: when it changes, and never a flood."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Mapping, Sequence

from tfdist.cluster.cluster_spec import Cluster
from tfdist.net.sighting import Sighting

FIRST_SECONDS = 3.0
"""A cluster that forms at once needs no word."""
BETWEEN_SECONDS = 5.0
_SHOWN = 4


def print_progress(text: str) -> None:
    """Writes a line of progress on stderr; a terminal that is gone must not end the job."""
    with contextlib.suppress(OSError):
        print(text, file=sys.stderr, flush=True)


def waiting_text(cluster: Cluster, missing: Mapping[int, Sighting], others: Sequence[tuple[str, int]]) -> str:
    """Who is here, and whom this launcher waits for.

    Args:
        cluster: All workers.
        missing: Workers that this launcher has not met, with what it saw of them.
        others: Host of another launcher and a worker that it has not met, as it says itself.
    """
    waits = [f"{cluster.workers[index]}, {seen.brief}" for index, seen in missing.items()]
    waits = waits or [f"{host} to reach {cluster.workers[index]}" for host, index in others]
    waits = waits or ["them to reach one another"]
    more = f"; and {len(waits) - _SHOWN} more" if len(waits) > _SHOWN else ""
    here = f"{len(cluster) - len(missing)} of {len(cluster)} workers are here"
    return f"{here}; waiting for {'; '.join(waits[:_SHOWN])}{more}"


class Progress:
    """Says what changes.

    Args:
        say: Says a line to the user.
        clock: Seconds, never going back.
    """

    def __init__(self, say: Callable[[str], None], clock: Callable[[], float]) -> None:
        self._say = say
        self._clock = clock
        self._next = clock() + FIRST_SECONDS
        self._said: str | None = None

    def show(self, text: str) -> None:
        """Says `text` if it is news and the last news are old enough."""
        if text != self._said and self._clock() >= self._next:
            self._say(text)
            self._said = text
            self._next = self._clock() + BETWEEN_SECONDS

    def all_here(self, size: int) -> None:
        """Says that the waiting is over, to whoever was told of it."""
        if self._said is not None:
            self._say(f"all {size} workers are here")
