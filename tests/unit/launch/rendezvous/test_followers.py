"""The launchers on the line to the chief's, over socket pairs."""

from __future__ import annotations

import contextlib
import json
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from tfdist.cluster import Cluster
from tfdist.launch.rendezvous.followers import Follower, Followers
from tfdist.net.bounded_wait import wait_for
from tfdist.net.hello import Hello
from tfdist.net.line_socket import LineSocket

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
