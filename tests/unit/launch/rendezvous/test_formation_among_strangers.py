"""Strangers call while a cluster of two launchers forms: they do not take part and do not prevent it."""

from __future__ import annotations

import contextlib
import json
import random
import socket
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from tests.helpers.descriptors import descriptors
from tests.unit.launch.rendezvous.launchers import GO, Launchers
from tfdist.launch.rendezvous.join_barrier import FormedCluster
from tfdist.net.hello import Hello
from tfdist.net.line_socket import MAX_LINE_BYTES

SECRET = "5f0c1e-not-to-be-seen"


@pytest.fixture
def launchers() -> Iterator[Launchers]:
    with contextlib.ExitStack() as stack:
        yield Launchers(2, stack)


def call(launchers: Launchers) -> socket.socket:
    """Calls the launcher of worker 0 as soon as it listens."""
    address = launchers.cluster.workers[0]
    while True:
        with contextlib.suppress(ConnectionRefusedError):
            stranger = socket.create_connection((address.host, address.port), timeout=10)
            launchers.stack.callback(stranger.close)
            return stranger


def form_among(launchers: Launchers, token: str | None, trouble: Callable[[], None]) -> list[FormedCluster]:
    """Starts the chief's launcher, makes trouble for it, and then starts the other one."""
    leader = launchers.start(0, token=token, timeout=1000)
    trouble()
    both = [each.result(30) for each in (leader, launchers.start(1, token=token, timeout=1000))]
    for each in both:
        launchers.stack.callback(each.links.close)
        assert each.go == GO
    return both


def hello(launchers: Launchers, local: tuple[int, ...]) -> dict[str, object]:
    return dict(Hello.own(launchers.cluster, local).to_message(link=True))


@pytest.mark.parametrize("token", [None, SECRET])
@pytest.mark.parametrize(
    "greeting",
    [
        b"",
        b"GET / HTTP/1.1\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        random.Random(1).randbytes(50_000),
        b"{}\n",
        b"{}\n" * 50_000,
        b"[" * 200_000 + b"\n",
        b'{"hello": ' + b"9" * 100_000 + b"}\n",
        b"x" * 300_000,  # a line without an end
        b'{"proof": "0"}\n',
        b'{"abort": {"code": 0, "text": "end", "host": "x"}}\n',
        b'{"go": {}}\n',
    ],
    ids=lambda greeting: repr(greeting[:12]),
)
def test_what_strangers_say_is_ignored(launchers: Launchers, token: str | None, greeting: bytes) -> None:
    def trouble() -> None:
        for _ in range(20):
            with contextlib.suppress(OSError):
                call(launchers).sendall(greeting)

    form_among(launchers, token, trouble)


@pytest.mark.parametrize("token", [None, SECRET])
def test_a_thousand_connections_do_not_keep_the_launchers_apart(launchers: Launchers, token: str | None) -> None:
    def trouble() -> None:
        for _ in range(1000):
            with contextlib.suppress(OSError):
                call(launchers)

    with descriptors(4000):  # both ends of each are in this process
        form_among(launchers, token, trouble)
        launchers.stack.close()


class Pest:
    """A stranger that sends until it is hung up on."""

    def __init__(self, stranger: socket.socket, piece: bytes) -> None:
        self._stranger = stranger
        self._piece = piece
        self.sent = 0
        self.hung_up = threading.Event()
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                self.sent += self._stranger.send(self._piece)
        self.hung_up.set()


@pytest.mark.parametrize("piece", [b"x" * 65536, b"{" + b" " * 1000, b"{}\n" * 1000], ids=["line", "object", "lines"])
def test_a_stranger_that_sends_without_end_is_hung_up_on(launchers: Launchers, piece: bytes) -> None:
    pests: list[Pest] = []
    form_among(launchers, None, lambda: pests.extend(Pest(call(launchers), piece) for _ in range(4)))
    for pest in pests:
        assert pest.hung_up.wait(20)
        # What is beyond the bound lies in the kernel's buffers, which are the machine's.
        assert pest.sent < 64 * MAX_LINE_BYTES


def test_a_slow_hello_is_waited_for_no_longer_than_silence(launchers: Launchers) -> None:
    ahead = [0.0]
    launchers.clock = lambda: time.monotonic() + ahead[0]

    def trouble() -> None:
        dripping, silent = call(launchers), call(launchers)
        # The launcher may accept the calls at any time, so its time passes until it has hung up.
        for stranger in (dripping, silent):
            stranger.settimeout(0.1)
            while not ended(stranger):
                ahead[0] += 1.0
                with contextlib.suppress(OSError):
                    dripping.sendall(b"x")

    form_among(launchers, None, trouble)


def ended(stranger: socket.socket) -> bool:
    try:
        return stranger.recv(1) == b""
    except TimeoutError:
        return False
    except ConnectionResetError:
        return True


def test_without_the_token_nobody_ends_or_joins_a_job(launchers: Launchers) -> None:
    """Hellos that would end the forming, or take a worker's place, if they were believed."""

    def trouble() -> None:
        for local in ((0,), (1,)):
            for extra in ({}, {"nonce": "0" * 64}):
                stranger = call(launchers)
                stranger.sendall(json.dumps({**hello(launchers, local), **extra}).encode() + b"\n")
                answer = json.loads(stranger.makefile().readline())
                assert set(answer) == {"nonce"}  # and nothing of the job
                stranger.sendall(b'{"proof": "' + b"0" * 64 + b'"}\n{"missing": {}}\n{"abort": {"code": 0}}\n')

    form_among(launchers, SECRET, trouble)


def test_a_hello_of_workers_that_do_not_exist_is_refused(launchers: Launchers) -> None:
    def trouble() -> None:
        stranger = call(launchers)
        message = hello(launchers, (1,))
        message["hello"] = {**Hello.own(launchers.cluster, (1,)).to_message()["hello"], "local": [7]}
        stranger.sendall(json.dumps(message).encode() + b"\n")
        with contextlib.suppress(ConnectionResetError):
            assert stranger.recv(1) == b""

    form_among(launchers, None, trouble)


def test_only_the_chiefs_launcher_keeps_callers(launchers: Launchers) -> None:
    follower = launchers.start(1)
    address = launchers.cluster.workers[1]
    while True:
        with contextlib.suppress(ConnectionRefusedError):
            caller = socket.create_connection((address.host, address.port), timeout=10)
            break
    with caller:
        caller.sendall(json.dumps(hello(launchers, (0,))).encode() + b"\n")
        lines = caller.makefile().readlines()  # up to the end of the stream
    assert len(lines) == 1 and "hello" in json.loads(lines[0])
    for each in (follower, launchers.start(0)):
        launchers.stack.callback(each.result(20).links.close)
