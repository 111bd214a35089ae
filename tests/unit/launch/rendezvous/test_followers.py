"""The launchers on the line to the chief's, over socket pairs."""

from __future__ import annotations

import contextlib
import json
import resource
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from tfdist.cluster import Cluster, Membership
from tfdist.errors import FormingError
from tfdist.launch.rendezvous.followers import NEIGHBOURS, Follower, Followers, Overview, raise_limit, whom_to_dial
from tfdist.net.bounded_wait import wait_for
from tfdist.net.hello import Hello
from tfdist.net.line_socket import LineError, LineSocket, Message

CLUSTER = Cluster.parse("a:20000,b:20000,c:20000")


class Line:
    """Followers, and the other ends of their lines."""

    def __init__(self, stack: contextlib.ExitStack) -> None:
        self.followers = Followers()
        self._stack = stack
        stack.callback(self.followers.close, lines=True)

    def add(self, *local: int, hello: Hello | None = None) -> tuple[Follower, socket.socket]:
        ours, theirs = socket.socketpair()
        self._stack.callback(theirs.close)
        follower = Follower(hello or Hello.own(CLUSTER, local), LineSocket(ours))
        self.followers.add(follower)
        return follower, theirs

    def hears(self) -> list[Follower]:
        wait_for([self.followers.source()], 10)
        return self.followers.hear()


@pytest.fixture
def line() -> Iterator[Line]:
    with contextlib.ExitStack() as stack:
        yield Line(stack)


def say(end: socket.socket, **message: Any) -> None:
    end.sendall(json.dumps(message).encode() + b"\n")


def test_a_new_one_is_heard_once_and_then_when_it_speaks(line: Line) -> None:
    (first, there), (second, _) = line.add(1), line.add(2)
    assert line.followers.hear() == [first, second]
    assert line.followers.hear() == []
    say(there, missing={"2": "refuses\x1b[2J"})
    assert line.hears() == [first]
    assert first.missing == {2: "refuses?[2J"}


def test_what_came_with_the_hello_is_heard(line: Line) -> None:
    """It was read with the hello, so that nothing is left in the socket that could be noticed."""
    follower, there = line.add(1)
    say(there, missing={})
    follower.listen()
    assert line.followers.hear() == [follower] and line.followers.miss_nobody()


def test_all_miss_nobody_when_each_has_said_so(line: Line) -> None:
    (_, one), (_, two) = line.add(1), line.add(2)
    line.followers.hear()
    assert not line.followers.miss_nobody()
    say(one, missing={})
    line.hears()
    assert not line.followers.miss_nobody()
    say(two, missing={})
    line.hears()
    assert line.followers.miss_nobody() and line.followers.are(2)
    say(two, missing={"1": "has left"})
    line.hears()
    assert not line.followers.miss_nobody()


def test_one_that_leaves_is_heard_and_dropped(line: Line) -> None:
    follower, there = line.add(1)
    say(there, abort={"code": 5, "text": "No data.", "host": "b"})
    there.close()
    assert line.hears() == [follower] and follower.abort is not None and follower.line.is_closed()
    line.followers.remove(follower)
    assert list(line.followers) == [] and not line.followers.are(1) and line.followers.miss_nobody()


def test_one_that_calls_again_takes_its_own_place(line: Line) -> None:
    hello = Hello.own(CLUSTER, (1,))
    first, _ = line.add(hello=hello)
    again, _ = line.add(hello=hello)
    assert first.line.is_closed() and line.followers.hear() == [again]
    assert list(line.followers) == [again] and line.followers.are(1)


def test_two_that_start_one_worker_are_known_while_both_are_there(line: Line) -> None:
    first, there = line.add(1, 2)
    second = Hello.own(CLUSTER, (1,))
    assert line.followers.with_same_worker(second) is first
    assert line.followers.with_same_worker(first.hello) is None
    line.add(hello=second)
    assert not line.followers.are(3)
    there.close()
    assert line.followers.with_same_worker(second) is None
    assert first in line.followers.hear()  # it is told that it has left


OVERVIEW = Overview("a", "2 of 3 workers are here", 1, ("  worker 2 (c:20000) refuses the connection",))


def test_an_overview_comes_as_it_was_sent() -> None:
    said = json.loads(json.dumps(OVERVIEW.to_message()))
    assert Overview.from_message(said["overview"]) == OVERVIEW


def test_long_and_strange_texts_are_clipped_before_they_are_sent() -> None:
    clipped = Overview.clipped("a", "x" * 10_000, 3, ["\x1b[2J" + "y" * 10_000] * 500)
    assert len(clipped.waiting) == 2000 and len(clipped.lines) == 64
    assert clipped.lines[0].startswith("?[2Jyyy") and len(clipped.lines[0]) == 2000


@pytest.mark.parametrize(
    "changed",
    [
        {"host": 7},
        {"waiting": None},
        {"waiting": "\x1b[2J"},
        {"missing": -1},
        {"missing": "1"},
        {"lines": 7},
        {"lines": [7]},
        {"lines": ["x"] * 1000},
        {"lines": ["x" * 100_000]},
    ],
)
def test_what_is_no_overview_is_refused(changed: Message) -> None:
    with pytest.raises(LineError, match="an overview that is not understood"):
        Overview.from_message({**OVERVIEW.to_message()["overview"], **changed})


def plan(size: int, *local: int) -> tuple[int, ...]:
    return whom_to_dial(Membership(Cluster.parse(",".join(f"h{n}:20000" for n in range(size))), local))


@pytest.mark.parametrize(
    ("size", "local", "dialled"),
    [
        (2, (1,), (0,)),
        (9, (3,), (0, 1, 2, 4, 5, 6, 7, 8)),  # in a small job everybody
        (1000, (0,), tuple(range(1, 1000))),  # the chief's launcher in any
        (1000, (500,), (0, 496, 497, 498, 499, 501, 502, 503, 504)),
        (1000, (999,), (0, 1, 2, 3, 995, 996, 997, 998)),  # the list is a ring
        (1000, tuple(range(8, 16)), (0, 4, 5, 6, 7, 16, 17, 18, 19)),  # a host with eight workers
        (20, (5, 15), (0, 1, 2, 3, 4, 6, 7, 8, 9, 11, 12, 13, 14, 16, 17, 18, 19)),
    ],
)
def test_who_dials_whom(size: int, local: tuple[int, ...], dialled: tuple[int, ...]) -> None:
    assert plan(size, *local) == dialled


def test_neighbours_dial_each_other_and_nobody_dials_more_with_more_workers() -> None:
    for size in (2, 3, 8, 9, 10, 50, 200):
        plans = [set(plan(size, index)) for index in range(size)]
        for index in range(size):
            after = (index + 1) % size
            assert after in plans[index] and index in plans[after]
        assert all(len(dialled) <= 2 * NEIGHBOURS + 1 for dialled in plans[1:])


NONE = resource.RLIM_INFINITY


class Limits:
    """The limits of a process, as the system keeps them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, soft: int, hard: int) -> None:
        self.now = soft, hard
        monkeypatch.setattr(resource, "getrlimit", lambda which: self.now)
        monkeypatch.setattr(resource, "setrlimit", self._set)

    def _set(self, which: int, limits: tuple[int, int]) -> None:
        assert which == resource.RLIMIT_NOFILE
        self.now = limits


@pytest.mark.parametrize(
    ("links", "soft", "hard", "after"),
    [
        (2, 256, 4096, 256),  # small jobs keep what they have
        (2, 1024, 1024, 1024),
        (1000, 1024, 1_048_576, 2152),
        (1000, 1024, 2000, 2000),  # as far as it goes
        (1000, 1024, 1128, 1128),  # just enough
        (1000, 1024, NONE, 2152),
        (1000, 1_048_576, 1_048_576, 1_048_576),
        (1000, NONE, NONE, NONE),
    ],
)
def test_the_limit_is_raised_as_far_as_it_is_needed(
    monkeypatch: pytest.MonkeyPatch, links: int, soft: int, hard: int, after: int
) -> None:
    limits = Limits(monkeypatch, soft, hard)
    raise_limit(links)
    assert limits.now == (after, hard)


def test_a_limit_that_is_too_low_is_an_error_that_says_how_to_raise_it(monkeypatch: pytest.MonkeyPatch) -> None:
    Limits(monkeypatch, 1024, 1024)
    with pytest.raises(FormingError, match=r"(?s)up to 999 other launchers.*1024 at most.*`ulimit -n 1127`") as raised:
        raise_limit(999)
    assert raised.value.exit_code == 3
