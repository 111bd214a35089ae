"""Dialler: goes on dialling the launchers that were not met yet, a bounded number at a time."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from tfdist.net.connector import Connector
from tfdist.net.dial_outcome import DialOutcome
from tfdist.net.hello import Hello
from tfdist.net.line_socket import LineSocket

MOST_AT_ONCE = 64
"""Attempts that are under way together."""

_PER_SECOND = 320.0
"""Attempts that are begun, at the addresses of workers whose launchers have not called: most of a large job come
late, and what is seen of them until then is worth a little time only."""

_BURST_SECONDS = 0.2


class Dialler:
    """Steps the connectors whose turn it is.

    Those of launchers that have called come first: they answer. The others take turns.

    Args:
        connectors: Worker -> how to meet its launcher.
        clock: Seconds, never going back.
    """

    def __init__(self, connectors: Mapping[int, Connector[Hello]], clock: Callable[[], float]) -> None:
        self._connectors = connectors
        self._clock = clock
        self._missing = set(connectors)
        self._queue = deque(sorted(connectors))
        self._active: dict[int, None] = {}
        self._called: set[int] = set()
        self._met: list[int] = []
        self._next_start = clock() - _BURST_SECONDS

    @property
    def has_met_all(self) -> bool:
        """True if nobody is missing."""
        return not self._missing

    def missing(self) -> dict[int, DialOutcome]:
        """Workers whose launchers have not been met, with what was seen of them."""
        return {index: self._connectors[index].seen for index in sorted(self._missing)}

    def newly_met(self) -> list[Connector[Hello]]:
        """Those that have met somebody since this was asked last."""
        met, self._met = self._met, []
        return [self._connectors[index] for index in met]

    def mismatch(self) -> str | None:
        """Returns why one of those that are being dialled cannot take part; None while nothing is known."""
        found = (self._connectors[index].mismatch for index in self._active)
        return next((mismatch for mismatch in found if mismatch is not None), None)

    def waiting_for(self) -> tuple[list[Any], list[Any]]:
        """Returns what must become readable, and what writable, before `step` gets on."""
        readable: list[Any] = []
        writable: list[Any] = []
        for index in self._active:
            reading, writing = self._connectors[index].waiting_for()
            readable += reading
            writable += writing
        return readable, writable

    def lines(self) -> list[LineSocket]:
        """The lines to those that are being dialled, and take what is said on them."""
        lines = (self._connectors[index].understood for index in self._active)
        return [line for line in lines if line is not None]

    def called(self, index: int) -> None:
        """The launcher of this worker has called: it is there, so that it is dialled next."""
        self._called.add(index)
        if index in self._queue:
            self._queue.remove(index)
            self._connectors[index].hurry()
            self._queue.appendleft(index)

    def lose(self, index: int) -> None:
        """The launcher of this worker, which was met, is gone, and is dialled anew."""
        self._connectors[index].lose()
        self._called.discard(index)
        if index not in self._missing:
            self._missing.add(index)
            self._queue.append(index)

    def step(self) -> None:
        """Gets on as far as is possible without waiting."""
        for index in list(self._active):
            self._step(index)
        self._begin()

    def _step(self, index: int) -> None:
        connector = self._connectors[index]
        connector.step()
        if connector.met is not None:
            del self._active[index]
            self._missing.discard(index)
            self._met.append(index)
        elif connector.is_idle and connector.mismatch is None:
            del self._active[index]
            self._queue.append(index)

    def _begin(self) -> None:
        now = self._clock()
        for _ in range(len(self._queue)):
            index = self._queue[0]
            if len(self._active) >= MOST_AT_ONCE or not self._connectors[index].is_due:
                return
            if index not in self._called:
                if now < self._next_start:
                    return
                self._next_start = max(self._next_start, now - _BURST_SECONDS) + 1 / _PER_SECOND
            self._queue.popleft()
            self._active[index] = None
            self._step(index)
