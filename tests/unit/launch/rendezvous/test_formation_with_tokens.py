"""Launchers with and without TFDIST_TOKEN meet over loopback."""

from __future__ import annotations

import contextlib
import signal
import socket
import threading
from collections.abc import Iterator

import pytest

from tests.unit.launch.rendezvous.launchers import GO, TWO_OF_THREE, Launchers, wait_for_events
from tfdist.cluster import Address, Cluster
from tfdist.errors import FormingError
from tfdist.launch.peers.messages import AttemptEnded, Released, Stop, WorkerDone
from tfdist.launch.signals import LauncherStopped

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
    [line] = first.links.lines
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
def test_another_token_or_none_is_an_error_everywhere(
    launchers: Launchers, odd: int, most: str | None, one: str | None, says: str
) -> None:
    """At once where there is no token; where there is one, who has none may be anybody, until the time is up."""
    tokens = [one if index == odd else most for index in range(3)]
    futures = {index: launchers.start(index, token=token, timeout=1000) for index, token in enumerate(tokens)}
    if None not in tokens:
        launchers.pass_until_said("TFDIST_TOKEN", *futures)
    errors: dict[int, FormingError] = {}
    for index in sorted(futures, key=lambda index: tokens[index] is not None):
        if tokens[index] is not None:
            launchers.ahead += 1000
        with pytest.raises(FormingError) as raised:
            futures[index].result(20)
        errors[index] = raised.value
    for index, error in errors.items():
        assert error.exit_code == 3
        assert "not-to-be-seen" not in f"{error}{error.__context__!r}"
        if tokens[index] is None:
            assert "did not form" not in str(error)
    texts = [str(error) for index, error in errors.items() if index == odd or None not in tokens]
    assert all(says in text and "Set the same on every host, or on none" in text for text in texts), texts


def test_one_without_the_token_at_a_workers_address_does_not_end_the_forming(launchers: Launchers) -> None:
    leader, second = launchers.start(0, token=SECRET, timeout=1000), launchers.start(2, token=SECRET, timeout=1000)
    stranger = launchers.start(1, token=OTHER, timeout=1000)
    launchers.pass_until_said("answered by one that has another TFDIST_TOKEN", 0, 2)
    launchers.signals[-1].received.append(signal.SIGTERM)
    with pytest.raises(LauncherStopped):
        stranger.result(20)
    for each in (leader, second, launchers.start(1, token=SECRET, timeout=1000)):
        formed = each.result(20)
        launchers.stack.callback(formed.links.close)
        assert formed.go == GO


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
