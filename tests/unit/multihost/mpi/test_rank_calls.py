"""Calls of ranks to a listener, on the loopback interface."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterator

import pytest

from tests.helpers.waiting import until
from tfdist.multihost.mpi.call_back import CallError, answer_call, parse_places, places_text
from tfdist.multihost.mpi.rank_end import connect
from tfdist.multihost.mpi.rank_link import RankListener
from tfdist.net.shared_token import Token

TOKEN = Token("secret")


@pytest.fixture
def listener() -> Iterator[RankListener]:
    made = RankListener(TOKEN, ["h1", "h2"])
    yield made
    made.close()


def places(listener: RankListener) -> list[tuple[str, int]]:
    return [place for place in parse_places(listener.places) if place[0] == "127.0.0.1"]


def test_a_rank_calls_twice_and_is_heard(listener: RankListener) -> None:
    control = connect(places(listener), TOKEN, "h1", "control")
    assert listener.take("h1") is None
    errors = connect(places(listener), TOKEN, "h1", "errors")
    found = until(lambda: listener.take("h1"))
    try:
        for mine, theirs in zip((control, errors), found, strict=True):
            mine.sendall(b"x")
            assert theirs.recv(1) == b"x"
    finally:
        for connection in (control, errors, *found):
            connection.close()
    assert listener.take("h2") is None


def test_a_stranger_is_refused_by_both_sides(listener: RankListener) -> None:
    with pytest.raises(CallError, match="h1 cannot call the launching host back: 127.0.0.1 port "):
        connect(places(listener), Token("other"), "h1", "control")
    assert listener.take("h1") is None


def test_a_host_that_is_not_of_the_launch_is_not_taken(listener: RankListener) -> None:
    with connect(places(listener), TOKEN, "h3", "control") as control:
        assert control.recv(1) == b""


def test_nobody_listens_when_all_have_called(listener: RankListener) -> None:
    where = places(listener)
    with contextlib.ExitStack() as stack:
        for host in ("h1", "h2"):
            for stream in ("control", "errors"):
                socket.create_connection(where[0], 5).close()
                stack.enter_context(connect(where, TOKEN, host, stream))
        for host in ("h1", "h2"):
            for connection in until(lambda host=host: listener.take(host)):
                stack.enter_context(connection)
        until(lambda: not _listens(where[0]), timeout=5)


def _listens(place: tuple[str, int]) -> bool:
    try:
        socket.create_connection(place, 5).close()
    except ConnectionRefusedError:
        return False
    return True


def test_a_stranger_who_drips_has_no_more_time_than_others() -> None:
    """Each byte comes in time, and the line never ends."""
    ours, theirs = socket.socketpair()
    over = threading.Event()

    def drip() -> None:
        with contextlib.suppress(OSError):
            while not over.wait(0.05):
                theirs.send(b" ")

    dripping = threading.Thread(target=drip)
    dripping.start()
    begun = time.monotonic()
    try:
        with ours, pytest.raises((CallError, TimeoutError)):
            answer_call(ours, TOKEN, 0.5)
        assert 0.4 < time.monotonic() - begun < 3
    finally:
        over.set()
        dripping.join()
        theirs.close()


def test_nobody_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with pytest.raises(CallError, match="refused"):
        connect([("127.0.0.1", port)], TOKEN, "h1", "control")


def test_places() -> None:
    assert parse_places(places_text(["10.0.0.1", "fd00::1"], 7)) == [("10.0.0.1", 7), ("fd00::1", 7)]
    for text in ("", "a", "a b", "a 0", "a 99999999", "a 70000", " 7"):
        with pytest.raises(CallError, match="expected addresses with ports"):
            parse_places(text)
