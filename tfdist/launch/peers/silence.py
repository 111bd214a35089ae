"""Silence between launchers: each says now and then that it runs, and one that does not for too long is given up.

A process that is stopped, or whose machine hangs, keeps its connections: the kernel answers for it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

SAY_SECONDS = 5.0
"""Between two times that a launcher says that it runs."""

MOST_SECONDS = 120.0
"""Seconds that another launcher may be silent. It is busy with nothing else for so long: a disk has 30 s to answer."""

_LOOK_SECONDS = 1.0
"""Seconds that one look adds to a silence at most: what this process missed while it was stopped is no silence."""

Link = TypeVar("Link")


class Silence(Generic[Link]):
    """The length of the silence on each of some links, by the time that this process has looked.

    Args:
        links: The links, which have all just been heard.
        clock: Seconds, monotonic.
    """

    def __init__(self, links: Iterable[Link], clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._looked = clock()
        self._watched = 0.0
        self._heard = dict.fromkeys(links, 0.0)
        self._said = self._looked

    def is_time_to_speak(self) -> bool:
        """Returns whether this launcher is to say that it runs; asked again, it is not for a while."""
        now = self._clock()
        if now - self._said < SAY_SECONDS:
            return False
        self._said = now
        return True

    def hear(self, link: Link) -> None:
        """Something has come by a link."""
        self._heard[link] = self._watched

    def hear_all(self) -> None:
        """From now on the silence of each link counts anew."""
        self._looked = self._clock()
        self._heard = dict.fromkeys(self._heard, self._watched)

    def look(self) -> list[Link]:
        """The links that have been silent for too long; to be asked after what has come was heard."""
        now = self._clock()
        self._watched += min(now - self._looked, _LOOK_SECONDS)
        self._looked = now
        return [link for link, heard in self._heard.items() if self._watched - heard > MOST_SECONDS]
