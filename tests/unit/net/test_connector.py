"""What a launcher sees at an address where no launcher of its job is."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import socket
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tfdist.cluster import Address, Cluster
from tfdist.net import connector
from tfdist.net.bounded_wait import wait_for
from tfdist.net.connector import ANSWER_SECONDS, CONNECT_SECONDS, Dial
from tfdist.net.hello import Hello
from tfdist.net.sighting import LEFT, NOT_TRIED, REFUSED, RESOLVING, STRANGER, UNRESOLVED, unreachable

HELLO = Hello.own(Cluster.parse("a:20000,b:20000"), (0,))


class Dialling:
    """A dial and its time, which passes only when it is told to."""

    def __init__(self, address: Address) -> None:
        self.now = 0.0
        self.dial = Dial(1, address, HELLO, link=True, clock=lambda: self.now)

    def until(self, condition: Callable[[], Any]) -> None:
        """Goes on until the condition holds."""
        deadline = time.monotonic() + 60
        while not condition():
            assert time.monotonic() < deadline, f"seen was {self.dial.seen}"
            self.dial.step()
            wait_for(self.dial.waiting_for()[0], 0.005, self.dial.waiting_for()[1])

    def sees(self, text: str) -> None:
        self.until(lambda: text in self.dial.seen.text)


@pytest.fixture
def dialling() -> Iterator[Callable[[str, int], Dialling]]:
    with contextlib.ExitStack() as stack:

        def make(host: str, port: int) -> Dialling:
            made = Dialling(Address(host, port))
            stack.callback(made.dial.close)
            return made

        yield make


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as made:
        made.settimeout(10)
        yield made


def resolve_to(monkeypatch: pytest.MonkeyPatch, *targets: tuple[str, int]) -> None:
    found = [(socket.AF_INET, socket.SOCK_STREAM, 0, "", target) for target in targets]
    monkeypatch.setattr(connector.socket, "getaddrinfo", lambda *_, **__: list(found))


def test_at_first_nothing_is_known(dialling: Callable[[str, int], Dialling]) -> None:
    assert dialling("b", 1).dial.seen == NOT_TRIED


def test_a_name_that_does_not_resolve(
    dialling: Callable[[str, int], Dialling], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(connector.socket, "getaddrinfo", fail)
    dialling("b", 20_000).sees(UNRESOLVED.text)


def test_a_resolver_that_does_not_answer_is_waited_for_without_blocking(
    dialling: Callable[[str, int], Dialling], monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        monkeypatch.setattr(connector.socket, "getaddrinfo", lambda *_, **__: theirs.recv(1) and [])
        slow = dialling("b", 20_000)
        slow.sees(RESOLVING.text)
        ours.sendall(b"x")
        slow.sees(UNRESOLVED.text)


def test_nobody_listens(dialling: Callable[[str, int], Dialling], listener: socket.socket) -> None:
    port = listener.getsockname()[1]
    listener.close()
    dialling("127.0.0.1", port).sees(REFUSED.text)


def test_what_is_sent_is_dropped(dialling: Callable[[str, int], Dialling]) -> None:
    """A full queue of calls drops what comes next, as a firewall does."""
    with contextlib.ExitStack() as stack:
        full = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        for _ in range(4):
            queued = stack.enter_context(socket.socket())
            queued.setblocking(False)
            queued.connect_ex(full.getsockname())
        attempt = dialling("127.0.0.1", full.getsockname()[1])
        attempt.until(lambda: attempt.dial.waiting_for()[1])
        attempt.now = CONNECT_SECONDS + 1
        attempt.sees("does not answer within 3 s: the host is down, or a firewall drops what is sent")
        assert attempt.dial.seen.brief == "timed out"


@pytest.mark.parametrize(
    ("code", "text", "brief"),
    [
        (errno.EHOSTUNREACH, "cannot be reached: No route to host", "no route to host"),
        (errno.ENETUNREACH, "cannot be reached: Network is unreachable", "network is unreachable"),
        (errno.ECONNREFUSED, "refuses the connection", "connection refused"),
        (errno.ETIMEDOUT, "does not answer within 3 s", "timed out"),
        (errno.EACCES, "cannot be reached: Permission denied", "permission denied"),
    ],
)
def test_what_the_kernel_says(
    dialling: Callable[[str, int], Dialling], monkeypatch: pytest.MonkeyPatch, code: int, text: str, brief: str
) -> None:
    monkeypatch.setattr(socket.socket, "connect_ex", lambda self, target: code)
    attempt = dialling("127.0.0.1", 20_000)
    attempt.sees(text)
    assert attempt.dial.seen.brief == brief


@pytest.mark.parametrize(
    "said", [b"SSH-2.0-OpenSSH_9.2\r\n", b"HTTP/1.1 400 Bad Request\r\n", b"{}\n", os.urandom(999) + b"\n"]
)
def test_something_else_answers(dialling: Callable[[str, int], Dialling], listener: socket.socket, said: bytes) -> None:
    attempt = dialling("127.0.0.1", listener.getsockname()[1])
    attempt.until(lambda: attempt.dial.line)
    with listener.accept()[0] as something:
        something.sendall(said)
        attempt.sees(STRANGER.text)


@pytest.mark.parametrize("said", [b"", b'{"he'])
def test_something_else_takes_the_call_and_is_silent(
    dialling: Callable[[str, int], Dialling], listener: socket.socket, said: bytes
) -> None:
    attempt = dialling("127.0.0.1", listener.getsockname()[1])
    attempt.until(lambda: attempt.dial.line)
    with listener.accept()[0] as something:
        something.sendall(said)
        attempt.now = ANSWER_SECONDS + 1
        attempt.sees("takes the connection, but says nothing for 5 s: something else listens there")


def test_something_else_floods(dialling: Callable[[str, int], Dialling], listener: socket.socket) -> None:
    attempt = dialling("127.0.0.1", listener.getsockname()[1])
    attempt.until(lambda: attempt.dial.line)
    with listener.accept()[0] as something:
        something.setblocking(False)

        def flooded() -> bool:
            with contextlib.suppress(OSError):
                something.send(b"x" * 65536)
            return attempt.dial.seen == STRANGER

        attempt.until(flooded)


def test_who_left_is_dialled_anew(dialling: Callable[[str, int], Dialling], listener: socket.socket) -> None:
    attempt = dialling("127.0.0.1", listener.getsockname()[1])
    attempt.until(lambda: attempt.dial.line)
    with listener.accept()[0] as launcher:
        answer = Hello.own(Cluster.parse("a:20000,b:20000"), (1,))
        launcher.sendall(answer_line(answer))
        attempt.until(lambda: attempt.dial.met)
    attempt.dial.lose()
    assert (attempt.dial.met, attempt.dial.seen) == (None, LEFT)
    attempt.now = 1.0
    attempt.until(lambda: attempt.dial.line)
    with listener.accept()[0] as launcher:
        launcher.sendall(answer_line(answer))
        attempt.until(lambda: attempt.dial.met == answer)


def answer_line(hello: Hello) -> bytes:
    return json.dumps(hello.to_message()).encode() + b"\n"


def test_of_several_addresses_the_one_that_leads_farthest_is_told(
    dialling: Callable[[str, int], Dialling], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where a name has an IPv6 address, and the host has no route for it."""
    codes = {("192.0.2.1", 1): errno.ENETUNREACH, ("192.0.2.2", 1): errno.ECONNREFUSED, ("192.0.2.3", 1): errno.EACCES}
    tried: list[tuple[str, int]] = []

    def connect(self: socket.socket, target: tuple[str, int]) -> int:
        tried.append(target)
        return codes[target]

    monkeypatch.setattr(socket.socket, "connect_ex", connect)
    resolve_to(monkeypatch, *codes)
    attempt = dialling("b", 20_000)
    attempt.until(lambda: len(tried) == 3)
    assert attempt.dial.seen == REFUSED
    for attempts in (4, 5, 6):
        attempt.now += 1.0
        attempt.until(lambda attempts=attempts: len(tried) == attempts)
        assert attempt.dial.seen == REFUSED  # and not now this, now that
    codes[("192.0.2.2", 1)] = errno.EHOSTUNREACH
    attempt.now += 1.0
    attempt.until(lambda: len(tried) == 9)
    assert attempt.dial.seen == unreachable(errno.EACCES, CONNECT_SECONDS)
