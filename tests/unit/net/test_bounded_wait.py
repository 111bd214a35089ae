"""Many sockets that are waited for as one."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator

import pytest

from tfdist.net.bounded_wait import ReadySet, wait_for


@pytest.fixture
def pairs() -> Iterator[list[tuple[socket.socket, socket.socket]]]:
    with contextlib.ExitStack() as stack:
        made = [socket.socketpair() for _ in range(3)]
        for end in (end for pair in made for end in pair):
            stack.callback(end.close)
        yield made


@pytest.fixture
def ready() -> Iterator[ReadySet[socket.socket]]:
    with contextlib.closing(ReadySet[socket.socket]()) as made:
        yield made


def test_only_those_are_ready_that_have_something_to_say(
    pairs: list[tuple[socket.socket, socket.socket]], ready: ReadySet[socket.socket]
) -> None:
    for ours, _ in pairs:
        ready.add(ours)
    assert ready.ready() == []
    pairs[1][1].send(b"x")
    assert ready.ready() == [pairs[1][0]] == ready.ready()  # until it is read
    pairs[1][0].recv(1)
    pairs[2][1].close()
    assert ready.ready() == [pairs[2][0]]  # one whose other end has left


def test_it_is_a_source_itself(
    pairs: list[tuple[socket.socket, socket.socket]], ready: ReadySet[socket.socket]
) -> None:
    ready.add(pairs[0][0])
    pairs[0][1].send(b"x")
    wait_for([ready], 60)  # returns at once; the bound of the test would end it
    assert ready.ready() == [pairs[0][0]]
    ready.close()
    assert ready.fileno() == -1 and ready.ready() == [] and len(ready) == 0


def test_one_that_is_dropped_is_not_told_of(
    pairs: list[tuple[socket.socket, socket.socket]], ready: ReadySet[socket.socket]
) -> None:
    ready.add(pairs[0][0])
    pairs[0][1].send(b"x")
    ready.discard(pairs[0][0])
    ready.discard(pairs[1][0])  # which was never there
    assert ready.ready() == [] and len(ready) == 0


def test_the_number_of_a_closed_one_may_be_another_ones(ready: ReadySet[socket.socket]) -> None:
    first, there = socket.socketpair()
    ready.add(first)
    number = first.fileno()
    first.close()
    ready.add(first)  # closed: left out
    second, beyond = socket.socketpair()
    with there, second, beyond:
        assert number in (second.fileno(), beyond.fileno())
        end, other = (second, beyond) if second.fileno() == number else (beyond, second)
        ready.add(end)
        ready.discard(first)
        other.send(b"x")
        assert ready.ready() == [end] and len(ready) == 1


def test_room_to_write_is_told_of_where_it_is_wanted(
    pairs: list[tuple[socket.socket, socket.socket]], ready: ReadySet[socket.socket]
) -> None:
    ours = pairs[0][0]
    ready.wait_to_write(ours, True)  # it is not there yet
    ready.add(ours)
    assert ready.ready() == []
    ready.wait_to_write(ours, True)
    assert ready.ready() == [ours]
    ready.wait_to_write(ours, False)
    assert ready.ready() == []
