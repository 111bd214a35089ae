"""Who calls a listener, and what it says to them."""

from __future__ import annotations

import contextlib
import json
import select
import socket
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.helpers.ports import free_ports
from tests.helpers.waiting import until
from tfdist.cluster import Cluster
from tfdist.errors import PortTakenError
from tfdist.net.handshake import CallerSide, Introduction
from tfdist.net.hello import Hello
from tfdist.net.hello_listener import MAX_STRANGERS, Caller, HelloListener
from tfdist.net.line_socket import LineError, LineSocket
from tfdist.net.shared_token import Seal, Token

CLUSTER = Cluster.parse("a:20000,b:20000")
MINE, THEIRS = Hello.own(CLUSTER, (0,)), Hello.own(CLUSTER, (1,))
BANNER = {"doctor": 2}


class Listening:
    """A listener on a port of its own, and its time, which passes only when it is told to."""

    def __init__(self, stack: contextlib.ExitStack, introduction: Introduction[Hello], **options: Any) -> None:
        [self._port] = free_ports(1)
        self._stack = stack
        self.now = 0.0
        self.listener = HelloListener([self._port], introduction, lambda: self.now, **options)
        self.listener.open()
        stack.callback(self.listener.close)

    def call(self) -> socket.socket:
        caller = self._stack.enter_context(socket.create_connection(("127.0.0.1", self._port), timeout=10))
        self.listener.step()
        return caller

    def arrival(self) -> Caller[Hello]:
        found: list[Caller[Hello]] = []
        until(lambda: found.extend(self.listener.step()) or found)
        [caller] = found
        return caller


@pytest.fixture
def listening() -> Iterator[Callable[..., Listening]]:
    with contextlib.ExitStack() as stack:
        yield lambda introduction, **options: Listening(stack, introduction, **options)


def hello(*, link: bool) -> bytes:
    return json.dumps(THEIRS.to_message(link=link)).encode() + b"\n"


def test_without_a_banner_a_caller_hears_nothing_before_it_has_said_hello(listening: Callable[..., Listening]) -> None:
    here = listening(Introduction(MINE))
    caller = here.call()
    caller.setblocking(False)
    with pytest.raises(BlockingIOError):
        caller.recv(1)
    caller.setblocking(True)
    caller.sendall(hello(link=True))
    assert here.arrival().hello == THEIRS
    assert json.loads(caller.makefile().readline()) == MINE.to_message()


def test_with_a_banner_every_caller_hears_it_first(listening: Callable[..., Listening]) -> None:
    here = listening(Introduction(MINE, banner=BANNER))
    caller = here.call()
    lines = caller.makefile()
    assert json.loads(lines.readline()) == BANNER
    caller.sendall(hello(link=True))
    kept = here.arrival().line
    assert kept is not None and not kept.is_closed()
    assert json.loads(lines.readline()) == MINE.to_message()


@pytest.mark.parametrize(("link", "keeps"), [(False, True), (True, False)])
def test_a_line_is_kept_only_if_both_sides_want_it(
    listening: Callable[..., Listening], link: bool, keeps: bool
) -> None:
    here = listening(Introduction(MINE), keeps=keeps)
    caller = here.call()
    caller.sendall(hello(link=link))
    assert here.arrival().line is None
    assert len(caller.makefile().readlines()) == 1  # and the end of the stream


@pytest.mark.parametrize("seconds", [4.0, 5.0])
def test_a_caller_that_says_nothing_is_hung_up_on(listening: Callable[..., Listening], seconds: float) -> None:
    here = listening(Introduction(MINE, seconds=seconds))
    caller = here.call()
    here.now = seconds
    here.listener.step()
    assert len(here.listener.sources()) == 2
    here.now = seconds + 0.1
    here.listener.step()
    assert len(here.listener.sources()) == 1
    assert caller.recv(1) == b""


def test_silent_callers_do_not_keep_out_those_that_come_later(listening: Callable[..., Listening]) -> None:
    here = listening(Introduction(MINE, banner=BANNER))
    silent = [here.call() for _ in range(MAX_STRANGERS + 1)]
    here.call().sendall(hello(link=True))
    assert here.arrival().hello == THEIRS
    lines = silent[0].makefile().readlines()  # up to the end of the stream: the oldest makes room
    assert len(lines) == 1


def test_a_port_that_cannot_be_listened_on_is_an_error(listening: Callable[..., Listening]) -> None:
    [port] = free_ports(1)
    with (
        socket.create_server(("127.0.0.1", port)),
        pytest.raises(PortTakenError, match="This launcher cannot listen on its workers' ports"),
    ):
        HelloListener([port], Introduction(MINE), lambda: 0.0).open()


def test_what_was_heard_of_a_call_cannot_be_said_again(listening: Callable[..., Listening]) -> None:
    """Neither all of it, nor the order of a sealed line in another call of the one who has the token."""
    token = Token("secret")
    here = listening(Introduction(MINE, token))
    heard: list[bytes] = []
    kept = [call_with_token(here, token, heard) for _ in range(2)]
    order = kept[0][0].close(b'{"leaving": true}') + b"\n"
    kept[0][2].sendall(order)
    until(lambda: kept[0][1].receive() == [{"leaving": True}])
    kept[1][2].sendall(order)
    with pytest.raises(LineError):
        until(kept[1][1].receive)
    stranger = here.call()
    lines, came = stranger.makefile("rb"), []
    answers = []
    for line in heard[:2]:
        stranger.sendall(line)
        until(lambda: came.extend(here.listener.step()) or is_readable(stranger))
        answers.append(json.loads(lines.readline()))
    assert [*answers[0]] == ["nonce"] and answers[1] == {"refused": True}
    assert all(caller.line is None for caller in came)


def call_with_token(here: Listening, token: Token, heard: list[bytes]) -> tuple[Seal, LineSocket, socket.socket]:
    """A call by the rules: the seal of the caller's line, and both of its ends. What the caller says is noted."""
    caller = here.call()
    side = CallerSide(Introduction(THEIRS, token), link=True)
    lines, say, met = caller.makefile("rb"), side.opening, None
    answered: list[Caller[Hello]] = []
    while met is None:
        if say is not None:
            heard.append(json.dumps(say).encode() + b"\n")
            caller.sendall(heard[-1])
        until(lambda: answered.extend(here.listener.step()) or is_readable(caller))
        reply = side.hear(json.loads(lines.readline()))
        say, met = reply.say, reply.met
    until(lambda: answered.extend(here.listener.step()) or answered)
    assert answered[0].line is not None
    return token.seal("caller", met.said), answered[0].line, caller


def is_readable(connection: socket.socket) -> bool:
    return bool(select.select([connection], [], [], 0)[0])
