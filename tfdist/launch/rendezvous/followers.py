"""Followers: the launchers that are on the line to the chief's while the cluster forms."""

from __future__ import annotations

import collections
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tfdist.net.hello import Hello
from tfdist.net.line_socket import LineError, LineSocket
from tfdist.net.ready_set import ReadySet
from tfdist.text import printable

_MOST_CHARACTERS = 500
"""Of what a launcher has seen of a worker."""


@dataclass(eq=False)
class Follower:
    """A launcher that is on the line to the chief's.

    Attributes:
        hello: Who it is.
        line: The line to it.
        missing: Workers that it dials and has not met yet, with what it saw of them; None until it says so for the
            first time.
        abort: Why it gave up, as it said it; None while it has not.
        refusal: Why it cannot take part, in the same form; it stays until all are here, so that all hear of it.
        has_terms: Whether it was told what it has to agree with.
    """

    hello: Hello
    line: LineSocket
    missing: dict[int, str] | None = None
    abort: dict[str, Any] | None = None
    refusal: dict[str, Any] | None = None
    has_terms: bool = False

    def fileno(self) -> int:
        return self.line.fileno()

    def listen(self) -> bool:
        """Takes in what it says. Returns False when it is gone or is not understood."""
        try:
            for message in self.line.receive():
                if "missing" in message:
                    told = message["missing"].items()
                    self.missing = {int(index): printable(str(seen))[:_MOST_CHARACTERS] for index, seen in told}
                if isinstance(message.get("abort"), dict):
                    self.abort = message["abort"]
                if isinstance(message.get("refusal"), dict):
                    self.refusal = message["refusal"]
        except (LineError, AttributeError, ValueError, TypeError):
            self.line.close()
        return not self.line.is_closed()


class Followers:
    """Those that are on the line now; who says nothing costs nothing."""

    def __init__(self) -> None:
        self._by_sender: dict[str, Follower] = {}
        self._claims: dict[int, list[Follower]] = collections.defaultdict(list)
        self._speaking = ReadySet[Follower]()
        self._new: list[Follower] = []
        self._content: set[Follower] = set()

    def __iter__(self) -> Iterator[Follower]:
        return iter(list(self._by_sender.values()))

    def source(self) -> ReadySet[Follower]:
        """Readable when one of them has said something, or has left."""
        return self._speaking

    def add(self, follower: Follower) -> None:
        """Takes in one that has called; one that calls again has lost its first line."""
        earlier = self._by_sender.get(follower.hello.sender)
        if earlier is not None:
            earlier.line.close()
            self.remove(earlier)
        self._by_sender[follower.hello.sender] = follower
        for index in follower.hello.local:
            self._claims[index].append(follower)
        self._speaking.add(follower)
        # What it said together with its hello was read with that.
        self._new.append(follower)

    def remove(self, follower: Follower) -> None:
        """Drops one that has left."""
        if self._by_sender.get(follower.hello.sender) is follower:
            del self._by_sender[follower.hello.sender]
        for index in follower.hello.local:
            self._claims[index].remove(follower)
        self._speaking.discard(follower)
        self._content.discard(follower)

    def hear(self) -> list[Follower]:
        """Hears those that are new, have said something, or have left; returns them."""
        heard = list(dict.fromkeys([*self._new, *self._speaking.ready()]))
        self._new.clear()
        for follower in heard:
            follower.listen()
            if follower.missing == {}:
                self._content.add(follower)
            else:
                self._content.discard(follower)
        return [follower for follower in heard if self._by_sender.get(follower.hello.sender) is follower]

    def with_same_worker(self, hello: Hello) -> Follower | None:
        """Another launcher on the line that starts a worker of this one, too."""
        for index in hello.local:
            for follower in self._claims[index]:
                if follower.hello.sender == hello.sender:
                    continue
                is_there = follower.listen()
                self._new.append(follower)
                if is_there:
                    return follower
        return None

    def are(self, count: int) -> bool:
        """Returns whether they start `count` workers, each once."""
        claims = [len(each) for each in self._claims.values() if each]
        return len(claims) == sum(claims) == count

    def miss_nobody(self) -> bool:
        """Returns whether each of them has said that it has met all that it dials."""
        return len(self._content) == len(self._by_sender)

    def close(self, *, lines: bool) -> None:
        """Hears nobody any more; hangs up on them if `lines`."""
        self._speaking.close()
        for follower in self._by_sender.values() if lines else ():
            follower.line.close()
