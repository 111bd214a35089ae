"""Post to the chief: what a worker tells the chief's process, by its launcher and that of the chief.

It takes another way than the run directory, which may be on a disk that is full, and needs no collective, for which
all workers would have to come to the same place of the program.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Mapping
from typing import Any

Content = Mapping[str, Any]
"""The content of what is told, in JSON's types."""

MOST_UNREAD = 4096
"""Letters that are kept for readers that have not come yet; beyond them the oldest are lost."""


class ChiefPost:
    """This process's end of it: the chief reads, all others write."""

    def __init__(self) -> None:
        self._send: Callable[[Content], bool] | None = None
        self._unread: list[tuple[str, Content]] = []
        self._lock = threading.Lock()

    def connect(self, send: Callable[[Content], bool]) -> None:
        """Takes the way to this worker's launcher, which tells whether that can still be reached."""
        self._send = send

    def tell(self, subject: str, content: Content) -> bool:
        """Tells the chief, from any thread; returns whether it may come: a worker without a launcher has no post."""
        return self._send is not None and self._send({"subject": subject, "content": dict(content)})

    def deliver(self, letter: Any) -> None:
        """Takes what another worker has told. What is no letter is left alone."""
        match letter:
            case {"subject": str(subject), "content": dict(content)}:
                with self._lock:
                    self._unread = [*self._unread[1 - MOST_UNREAD :], (subject, content)]

    def read(self, subject: str) -> list[Content]:
        """Returns what has come on a subject since the last call, in its order."""
        with self._lock:
            found = [content for about, content in self._unread if about == subject]
            self._unread = [letter for letter in self._unread if letter[0] != subject]
        return found


@functools.cache
def chief_post() -> ChiefPost:
    """The post of this process."""
    return ChiefPost()
