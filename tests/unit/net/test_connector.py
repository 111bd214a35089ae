"""What a connector sees at an address where the process that it looks for is not, or is."""

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
from tfdist.net.bounded_wait import wait_for
from tfdist.net.connection_attempts import DialOutcome, DialStatus, look_up
from tfdist.net.connector import CONNECT_SECONDS, Connector
from tfdist.net.handshake import Introduction
from tfdist.net.hello import Hello
from tfdist.net.line_socket import LineSocket
from tfdist.net.shared_token import Token

HELLO = Hello.own(Cluster.parse("a:20000,b:20000"), (0,))
BANNER = {"doctor": 2}
LAUNCHER = Introduction(HELLO)
DOCTOR = Introduction(HELLO, banner=BANNER, seconds=4.0)
"""Silent until it has heard the banner."""


class Dialling:
    """A connector and its time, which passes only when it is told to."""

    def __init__(self, address: Address, introduction: Introduction[Hello] = LAUNCHER, **options: Any) -> None:
        self.now = 0.0
        self.seconds = introduction.seconds
        self.connector = Connector(1, address, introduction, link=True, clock=lambda: self.now, **options)

    @property
    def status(self) -> DialStatus:
        return self.connector.seen.status

    def until(self, condition: Callable[[], Any]) -> None:
        """Steps until the condition holds."""
        deadline = time.monotonic() + 60
        while not condition():
            assert time.monotonic() < deadline, f"seen was {self.connector.seen}"
            self.connector.step()
            wait_for(self.connector.waiting_for()[0], 0.005, self.connector.waiting_for()[1])

    def sees(self, status: DialStatus) -> None:
        self.until(lambda: self.status is status)


@pytest.fixture
def dialling() -> Iterator[Callable[..., Dialling]]:
    with contextlib.ExitStack() as stack:

        def make(host: str, port: int, *arguments: Any, resolver: Any = look_up) -> Dialling:
            made = Dialling(Address(host, port), *arguments, resolver=resolver)
            stack.callback(made.connector.close)
            return made

        yield make


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as made:
        made.settimeout(10)
        yield made


@pytest.fixture(params=[LAUNCHER, DOCTOR], ids=["launcher", "doctor"])
def attempt(request: pytest.FixtureRequest, dialling: Callable[..., Dialling], listener: socket.socket) -> Dialling:
    """A connector of each kind that has just connected to the listener."""
    made = dialling("127.0.0.1", listener.getsockname()[1], request.param)
    made.until(lambda: made.connector.line)
    return made


def resolve_to(*targets: tuple[str, int]) -> Callable[[Address], list[Any]]:
    return lambda address: [(socket.AF_INET, socket.SOCK_STREAM, 0, "", target) for target in targets]


def line(message: dict[str, Any]) -> bytes:
    return json.dumps(message).encode() + b"\n"


def test_at_first_nothing_is_known(dialling: Callable[..., Dialling]) -> None:
    assert dialling("b", 1).connector.seen == DialOutcome(DialStatus.NOT_TRIED)


def test_a_name_that_does_not_resolve(dialling: Callable[..., Dialling], monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", fail)
    dialling("b", 20_000).sees(DialStatus.UNRESOLVED)


def test_a_resolver_that_does_not_answer_is_waited_for_without_blocking(dialling: Callable[..., Dialling]) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        slow = dialling("b", 20_000, resolver=lambda address: theirs.recv(1) and [])
        slow.sees(DialStatus.RESOLVING)
        ours.sendall(b"x")
        slow.sees(DialStatus.UNRESOLVED)


def test_nobody_listens(dialling: Callable[..., Dialling], listener: socket.socket) -> None:
    port = listener.getsockname()[1]
    listener.close()
    dialling("127.0.0.1", port).sees(DialStatus.REFUSED)


def test_what_is_sent_is_dropped(dialling: Callable[..., Dialling]) -> None:
    """A full queue of calls drops what comes next, as a firewall does."""
    with contextlib.ExitStack() as stack:
        full = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        for _ in range(4):
            queued = stack.enter_context(socket.socket())
            queued.setblocking(False)
            queued.connect_ex(full.getsockname())
        made = dialling("127.0.0.1", full.getsockname()[1])
        made.until(lambda: made.connector.waiting_for()[1])
        assert made.status is DialStatus.CONNECTING
        made.now = CONNECT_SECONDS + 1
        made.sees(DialStatus.TIMED_OUT)


@pytest.mark.parametrize(
    ("code", "outcome"),
    [
        (errno.EHOSTUNREACH, DialOutcome(DialStatus.UNREACHABLE, "No route to host")),
        (errno.ECONNREFUSED, DialOutcome(DialStatus.REFUSED)),
        (errno.ETIMEDOUT, DialOutcome(DialStatus.TIMED_OUT)),
    ],
)
def test_what_the_kernel_says(
    dialling: Callable[..., Dialling], monkeypatch: pytest.MonkeyPatch, code: int, outcome: DialOutcome
) -> None:
    monkeypatch.setattr(socket.socket, "connect_ex", lambda self, target: code)
    made = dialling("127.0.0.1", 20_000)
    made.until(lambda: made.connector.seen == outcome)


@pytest.mark.parametrize(
    ("said", "status"),
    [
        (b"SSH-2.0-OpenSSH_9.2\r\n", DialStatus.STRANGER),
        (b"HTTP/1.1 400 Bad Request\r\n", DialStatus.STRANGER),
        (b"{}\n", DialStatus.STRANGER),
        (bytes(range(255, 0, -1)) + b"\n", DialStatus.STRANGER),
        (bytes.fromhex("00001804000000000000"), DialStatus.GRPC),
        (line({"doctor": 99}), DialStatus.STRANGER),
        (line(BANNER) + line({"hello": 7}), DialStatus.STRANGER),
    ],
)
def test_something_else_answers(attempt: Dialling, listener: socket.socket, said: bytes, status: DialStatus) -> None:
    with listener.accept()[0] as something:
        something.sendall(said)
        attempt.until(
            lambda: attempt.status in ((DialStatus.STRANGER, DialStatus.GRPC) if status is None else (status,))
        )


@pytest.mark.parametrize("said", [b"", b'{"he'])
def test_something_else_takes_the_call_and_is_silent(attempt: Dialling, listener: socket.socket, said: bytes) -> None:
    with listener.accept()[0] as something:
        something.sendall(said)
        attempt.now = attempt.seconds - 0.1
        for _ in range(5):
            attempt.connector.step()
        assert attempt.status is DialStatus.CONNECTING
        attempt.now = attempt.seconds + 1
        attempt.sees(DialStatus.SILENT)


def test_nothing_is_read_before_the_first_bytes_are_known(attempt: Dialling, monkeypatch: pytest.MonkeyPatch) -> None:
    """What comes between a look at the first bytes and a read would be taken for the first bytes' sequel."""
    monkeypatch.setattr(LineSocket, "receive", lambda line, limit=None: pytest.fail("read"))
    for _ in range(5):
        attempt.connector.step()
    assert attempt.status is DialStatus.CONNECTING


def test_something_else_hangs_up(attempt: Dialling, listener: socket.socket) -> None:
    listener.accept()[0].close()
    attempt.sees(DialStatus.CLOSED)


def test_something_else_floods(attempt: Dialling, listener: socket.socket) -> None:
    with listener.accept()[0] as something:
        something.setblocking(False)

        def flooded() -> bool:
            with contextlib.suppress(OSError):
                something.send(b"{" + b"x" * 65536)
            return attempt.status is DialStatus.STRANGER

        attempt.until(flooded)


def test_a_caller_that_waits_for_a_banner_says_nothing_to_anybody_else(
    dialling: Callable[..., Dialling], listener: socket.socket
) -> None:
    quiet = dialling("127.0.0.1", listener.getsockname()[1], DOCTOR)
    quiet.until(lambda: quiet.connector.line)
    with listener.accept()[0] as job:
        job.settimeout(10)
        job.sendall(bytes.fromhex("000000040000000000"))
        quiet.sees(DialStatus.GRPC)
        # The end of the stream, and no reset: what the job sent was read.
        assert job.recv(1) == b""


def test_a_line_is_kept_after_the_introduction(attempt: Dialling, listener: socket.socket) -> None:
    theirs = Hello.own(Cluster.parse("a:20000,b:20000"), (1,))
    with listener.accept()[0] as other:
        if attempt.seconds == DOCTOR.seconds:
            other.sendall(line(BANNER))
        other.sendall(line(theirs.to_message()) + line({"more": 1}))
        attempt.until(lambda: attempt.connector.met == theirs)
        assert attempt.status is DialStatus.MET
        assert attempt.connector.peer == "127.0.0.1"
        kept = attempt.connector.line
        assert kept is not None and kept.receive() == [{"more": 1}]


def test_who_left_is_dialled_anew(dialling: Callable[..., Dialling], listener: socket.socket) -> None:
    made = dialling("127.0.0.1", listener.getsockname()[1])
    made.until(lambda: made.connector.line)
    answer = Hello.own(Cluster.parse("a:20000,b:20000"), (1,))
    with listener.accept()[0] as launcher:
        launcher.sendall(line(answer.to_message()))
        made.until(lambda: made.connector.met)
    made.connector.lose()
    assert (made.connector.met, made.status) == (None, DialStatus.LEFT)
    made.now = 1.0
    made.until(lambda: made.connector.line)
    with listener.accept()[0] as launcher:
        launcher.sendall(line(answer.to_message()))
        made.until(lambda: made.connector.met == answer)


def test_who_had_another_token_and_has_gone_is_told_of_until_somebody_else_answers(
    dialling: Callable[..., Dialling], listener: socket.socket
) -> None:
    """All launchers of a job give up at about the same time: who left first must not seem not to have come."""
    port = listener.getsockname()[1]
    made = dialling("127.0.0.1", port, Introduction(HELLO, Token("a secret of this test")))
    made.until(lambda: made.connector.line)
    with listener.accept()[0] as other:
        other.sendall(line(Hello.own(Cluster.parse("a:20000,b:20000"), (1,)).to_message()))
        made.sees(DialStatus.MISMATCHED)
    listener.close()
    seen = made.connector.seen
    for _ in range(3):
        made.now += 1.0
        made.until(lambda: not made.connector.is_idle)
        made.until(lambda: made.connector.is_idle)
        assert made.connector.seen == seen
    with socket.create_server(("127.0.0.1", port)) as stranger:
        made.now += 1.0
        made.until(lambda: made.connector.line)
        with stranger.accept()[0] as other:
            other.sendall(b"SSH-2.0-OpenSSH_9.2\r\n")
            made.sees(DialStatus.STRANGER)


def test_of_several_addresses_the_one_that_leads_farthest_is_told(
    dialling: Callable[..., Dialling], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where a name has an IPv6 address, and the host has no route for it."""
    codes = {("192.0.2.1", 1): errno.ENETUNREACH, ("192.0.2.2", 1): errno.ECONNREFUSED, ("192.0.2.3", 1): errno.EACCES}
    tried: list[tuple[str, int]] = []

    def connect(self: socket.socket, target: tuple[str, int]) -> int:
        tried.append(target)
        return codes[target]

    monkeypatch.setattr(socket.socket, "connect_ex", connect)
    made = dialling("b", 20_000, resolver=resolve_to(*codes))
    made.until(lambda: len(tried) == 3)
    assert made.status is DialStatus.REFUSED
    for attempts in (4, 5, 6):
        made.now += 1.0
        made.until(lambda attempts=attempts: len(tried) == attempts)
        assert made.status is DialStatus.REFUSED  # and not now this, now that
    codes[("192.0.2.2", 1)] = errno.EHOSTUNREACH
    made.now += 1.0
    made.until(lambda: len(tried) == 9)
    assert made.connector.seen == DialOutcome(DialStatus.UNREACHABLE, os.strerror(errno.EACCES))
