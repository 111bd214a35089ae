"""Followers: the launchers on the line to the chief's while the cluster forms; whom each dials, what they are told."""

from __future__ import annotations

import collections
import resource
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tfdist.cluster.membership import Membership
from tfdist.errors import FormingError
from tfdist.net.bounded_wait import ReadySet
from tfdist.net.hello import Hello
from tfdist.net.line_socket import LineError, LineSocket, Message
from tfdist.text import printable

_MOST_CHARACTERS = 500
"""Of what a launcher has seen of a worker."""
_MOST_LINES = 64
_LONGEST_OVERVIEW = 2000
"""Of a line; a name of a host has 253 at most."""
CHIEF = 0
NEIGHBOURS = 4
"""Of each worker, on each side; up to nine workers every launcher dials every other one."""
_SPARE = 128
"""Of the launcher besides its links: logs, workers, and whom it dials meanwhile."""
_COMFORT = 1024
"""More than that while all call at once, strangers among them."""


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


@dataclass(frozen=True)
class Overview:
    """Who is here, as the chief's launcher sees it.

    Attributes:
        host: Its machine's name.
        waiting: Who is here and who is not, in one line.
        missing: How many workers have not come.
        lines: What was seen of them, as in the error.

    Raises:
        ValueError: It is not what a launcher sends.
    """

    host: str
    waiting: str
    missing: int
    lines: tuple[str, ...]

    def __post_init__(self) -> None:
        texts = [self.host, self.waiting, *self.lines]
        if len(self.lines) > _MOST_LINES or type(self.missing) is not int or self.missing < 0:
            raise ValueError("expected a number and a few lines")
        # They are printed: no control characters.
        if not all(isinstance(text, str) and len(text) <= _LONGEST_OVERVIEW and text.isprintable() for text in texts):
            raise ValueError("expected texts that can be printed")

    @classmethod
    def clipped(cls, host: str, waiting: str, missing: int, lines: Sequence[str]) -> Overview:
        """An overview of texts that may be longer than what is sent."""
        shown = tuple(printable(line)[:_LONGEST_OVERVIEW] for line in lines[:_MOST_LINES])
        return cls(host, printable(waiting)[:_LONGEST_OVERVIEW], missing, shown)

    def to_message(self) -> Message:
        """The overview as it is sent."""
        fields: dict[str, Any] = {**vars(self), "lines": list(self.lines)}
        return {"overview": fields}

    @classmethod
    def from_message(cls, said: Message) -> Overview:
        """Returns what the chief's launcher sent, under `overview`.

        Raises:
            LineError: It is not an overview.
        """
        try:
            return cls(said["host"], said["waiting"], said["missing"], tuple(said["lines"]))
        except (KeyError, TypeError, ValueError) as error:
            raise LineError(f"an overview that is not understood: {error}") from None


def whom_to_dial(membership: Membership) -> tuple[int, ...]:
    """The workers at whose addresses this launcher looks for their launchers, ascending."""
    if membership.has_chief:
        return membership.remote
    size = membership.num_workers
    near = {(index + step) % size for index in membership.local for step in range(-NEIGHBOURS, NEIGHBOURS + 1)}
    return tuple(sorted((near | {CHIEF}) - set(membership.local)))


def raise_limit(links: int) -> None:
    """Lets this process have so many links to other launchers, as far as the system allows it.

    Raises:
        FormingError: The system's limit does not allow them.
    """
    needed = links + _SPARE
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < needed:
        raise FormingError(
            f"The launcher of the chief keeps a link to each of up to {links} other launchers, for which it needs "
            f"{needed} open files. Expected a limit that allows them. Received: {hard} at most (ulimit -Hn). Raise it "
            f"for the chief's host: `ulimit -n {needed}` as root in the shell that starts tfdist, LimitNOFILE={needed} "
            f"for a service, --ulimit nofile={needed} for a container."
        )
    wanted = needed + _COMFORT if hard == resource.RLIM_INFINITY else min(needed + _COMFORT, hard)
    # In small jobs what every process has is enough.
    if soft != resource.RLIM_INFINITY and soft < wanted and links > _SPARE:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
