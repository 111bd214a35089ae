""""""

from __future__ import annotations

import errno
import socket
import threading
from typing import Any

import pytest

from tests.helpers.waiting import until
from tfdist.cluster import Address
from tfdist.net.bounded_wait import wait_for
from tfdist.net.connection_attempts import (
    FRESH_SECONDS,
    DialOutcome,
    DialStatus,
    Lookup,
    begin_connecting,
    finish_connecting,
    of_errno,
    of_first_bytes,
)


class Names:
    """A name server that answers when it is told to, and the time."""

    def __init__(self) -> None:
        self.now = 0.0
        self.asked = 0
        self.answer: list[Any] = [("target",)]
        self.answers = threading.Event()
        self.lookup = Lookup(Address("b", 1), lambda: self.now, self._look_up)

    def _look_up(self, address: Address) -> list[Any]:
        self.asked += 1
        assert self.answers.wait(20)
        return self.answer

    def targets(self) -> list[Any]:
        found: list[list[Any]] = []
        until(lambda: found or [found.append(targets) for targets in [self.lookup.targets()] if targets is not None])
        return found[0]


@pytest.fixture
def names() -> Names:
    return Names()


def test_a_slow_name_server_is_not_waited_for(names: Names) -> None:
    assert names.lookup.targets() is None
    assert names.lookup.targets() is None
    names.answers.set()
    assert names.targets() == [("target",)]
    assert names.asked == 1


@pytest.mark.parametrize("answer", [[("target",)], []])
def test_the_result_of_a_look_up_is_used_for_a_while(names: Names, answer: list[Any]) -> None:
    names.answers.set()
    names.answer = answer
    first = names.targets()
    first.clear()  # the next look-up is not changed by it
    assert names.targets() == answer
    assert names.asked == 1
    names.now += FRESH_SECONDS
    names.answer = [("other",)]
    assert names.targets() == [("other",)]
    assert names.asked == 2


def target(port: int, host: str = "127.0.0.1") -> Any:
    return socket.AF_INET, socket.SOCK_STREAM, 0, "", (host, port)


def test_connecting_does_not_wait() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        connecting, code = begin_connecting(target(server.getsockname()[1]))
        assert connecting is not None and code == 0
        with connecting:
            wait_for((), 20, (connecting,))
            assert finish_connecting(connecting) == 0


def test_a_refused_connection_gives_its_errno() -> None:
    with socket.socket() as bound:  # and does not listen
        bound.bind(("127.0.0.1", 0))
        connecting, _ = begin_connecting(target(bound.getsockname()[1]))
        assert connecting is not None
        with connecting:
            wait_for((), 20, (connecting,))
            assert finish_connecting(connecting) == errno.ECONNREFUSED


def test_an_address_that_cannot_be_connected_to_gives_its_errno() -> None:
    connecting, code = begin_connecting(target(1, "255.255.255.255"))
    assert connecting is None and code


@pytest.mark.parametrize(
    ("code", "outcome"),
    [
        (errno.ECONNREFUSED, DialOutcome(DialStatus.REFUSED)),
        (errno.ETIMEDOUT, DialOutcome(DialStatus.TIMED_OUT)),
        (errno.EHOSTUNREACH, DialOutcome(DialStatus.UNREACHABLE, "No route to host")),
        (errno.ENETUNREACH, DialOutcome(DialStatus.UNREACHABLE, "Network is unreachable")),
        (errno.EACCES, DialOutcome(DialStatus.UNREACHABLE, "Permission denied")),
    ],
)
def test_what_the_kernel_says(code: int, outcome: DialOutcome) -> None:
    assert of_errno(code) == outcome


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (bytes.fromhex("00001804000000000000"), DialStatus.GRPC),
        (b"SSH-2.0-OpenSSH", DialStatus.STRANGER),
        (b"\0\0", DialStatus.STRANGER),
    ],
)
def test_a_server_of_another_kind_is_known_by_how_it_begins(data: bytes, status: DialStatus) -> None:
    assert of_first_bytes(data).status is status
