"""Launchers with and without TFDIST_TOKEN meet over loopback."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator

import pytest

from tests.unit.launch.rendezvous.launchers import GO, TWO_OF_THREE, Launchers, wait_for_events
from tfdist.cluster import Address, Cluster
from tfdist.errors import FormingError
from tfdist.launch.peers.messages import AttemptEnded, Released, Stop, WorkerDone

SECRET, OTHER = "5f0c1e-not-to-be-seen", "another-not-to-be-seen"


@pytest.fixture
def launchers() -> Iterator[Launchers]:
    with contextlib.ExitStack() as stack:
        yield Launchers(3, stack)


def test_launchers_with_the_token_meet_and_keep_talking(launchers: Launchers) -> None:
    leader, first, second = launchers.form((0,), (1,), (2,), token=SECRET)
    assert [each.go for each in (leader, first, second)] == [GO] * 3
    for index, each in ((1, first), (2, second)):
        for code in (3, 4, 5):
            each.links.tell(WorkerDone(index, code, False))
            assert wait_for_events(leader) == [WorkerDone(index, code, False)]
    first.links.tell(AttemptEnded(stop=Stop(130, "Ctrl-C")))
    assert wait_for_events(leader)[0].stop == wait_for_events(second)[0].stop == Stop(130, "Ctrl-C")


def test_a_forged_message_ends_the_line(launchers: Launchers) -> None:
    leader, first, second = launchers.form((0,), (1,), (2,), token=SECRET)
    [line] = first.links.sockets()
    line.connection.sendall(b'{"released": 0}\n')
    [lost] = wait_for_events(leader)
    assert lost.failures[0].kind == "lost" and lost.failures[0].index == 1
    [told] = wait_for_events(second)
    assert told == lost


@pytest.mark.parametrize("odd", [0, 1, 2])
@pytest.mark.parametrize(
    ("most", "one", "says"),
    [(SECRET, OTHER, "another"), (SECRET, None, "TFDIST_TOKEN"), (None, SECRET, "TFDIST_TOKEN")],
)
def test_another_token_or_none_is_an_error_at_once_and_everywhere(
    launchers: Launchers, odd: int, most: str | None, one: str | None, says: str
) -> None:
    futures = [launchers.start(index, token=one if index == odd else most, timeout=1000) for index in range(3)]
    for future in futures:
        with pytest.raises(FormingError) as raised:
            future.result(20)
        assert raised.value.exit_code == 3
        assert says in str(raised.value)
        assert "Set the same on every host, or on none" in str(raised.value)
        assert "not-to-be-seen" not in f"{raised.value}{raised.value.__context__!r}"


def test_a_disagreement_is_told_with_a_token_too(launchers: Launchers) -> None:
    other = Cluster((*launchers.cluster.workers, Address("127.0.0.1", 19_999)))
    futures = [launchers.start(i, cluster=other if i == 1 else None, timeout=1000, token=SECRET) for i in range(3)]
    for future in futures:
        with pytest.raises(FormingError, match="another worker list"):
            future.result(20)


def test_a_launcher_that_gives_up_tells_the_others_with_a_token_too(launchers: Launchers) -> None:
    futures = [launchers.start(i, timeout=1000 if i == 1 else 1_000_000, token=SECRET) for i in (0, 1)]
    launchers.pass_until_said(TWO_OF_THREE, 0, 1)
    launchers.ahead += 1000
    for future in futures:
        with pytest.raises(FormingError, match="worker 2"):
            future.result(20)


def test_a_caller_without_the_token_that_cannot_be_reached_is_named_when_the_time_is_up(launchers: Launchers) -> None:
    """As behind a firewall: it calls here, and does not answer itself."""
    leader = launchers.start(0, token=SECRET, timeout=1000)
    with launchers.call(0) as caller:
        caller.sendall(launchers.hello(1))
        assert b"nonce" in caller.recv(1000)
    launchers.ahead += 1000
    with pytest.raises(FormingError, match=r"from 127\.0\.0\.1, a launcher called that has no TFDIST_TOKEN"):
        leader.result(20)


class Wire:
    """A proxy between the launchers of workers 1 and 0, which records all that they say."""

    def __init__(self, target: Address) -> None:
        self.heard = bytearray()
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._run, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _run(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near = self._listener.accept()[0]
                far = socket.socket()
                if far.connect_ex((self._target.host, self._target.port)):
                    near.close()
                    far.close()
                    continue
                for source, sink in ((near, far), (far, near)):
                    threading.Thread(target=self._carry, args=(source, sink), daemon=True).start()

    def _carry(self, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                self.heard += data
                sink.sendall(data)
        with contextlib.suppress(OSError):
            sink.shutdown(socket.SHUT_WR)


def test_the_token_is_not_on_the_wire(launchers: Launchers, monkeypatch: pytest.MonkeyPatch) -> None:
    chief = launchers.cluster.workers[0]
    wire = Wire(chief)
    launchers.stack.callback(wire.close)
    resolve = socket.getaddrinfo

    def detour(host: str, port: int, **options: int) -> object:
        return resolve(host, wire.port if port == chief.port else port, **options)

    monkeypatch.setattr(socket, "getaddrinfo", detour)
    leader, first, second = launchers.form((0,), (1,), (2,), token=SECRET)
    first.links.tell(WorkerDone(1, 3, False))
    assert wait_for_events(leader) == [WorkerDone(1, 3, False)]
    leader.links.tell(Released(0))
    assert wait_for_events(first) == [Released(0)]
    heard = bytes(wire.heard)
    assert b'"proof"' in heard and b'"WorkerDone"' in heard and b'"Released"' in heard
    assert b"not-to-be-seen" not in heard
