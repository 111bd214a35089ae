"""Launchers meet over loopback, each in a thread of this process."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest

from tests.unit.launch.rendezvous.launchers import GO, TWO_OF_THREE, Launchers, wait_for_events
from tfdist.cluster import Address, Cluster
from tfdist.errors import FormingError, RunDirError, TfdistError
from tfdist.launch.agent.exit_diagnosis import from_signal
from tfdist.launch.peers.messages import AttemptEnded, Released, Stop, WorkerDone
from tfdist.launch.rendezvous.join_barrier import LateError
from tfdist.launch.rendezvous.peer_discovery import PeerDiscovery
from tfdist.launch.signals import LauncherStopped
from tfdist.net import hello as hello_module
from tfdist.net.connection_attempts import DialOutcome, DialStatus
from tfdist.net.port_reservation import bind_reusable


@pytest.fixture
def make() -> Iterator[Callable[[int], Launchers]]:
    with contextlib.ExitStack() as stack:
        yield lambda size: Launchers(size, stack)


@pytest.mark.parametrize(
    "locals_", [[(0,), (1,)], [(0, 2), (1,), (3,)], [(1, 2), (0,)], [(0,), (1,), (2,), (3,), (4,)]]
)
def test_launchers_meet_and_agree(make: Callable[[int], Launchers], locals_: list[tuple[int, ...]]) -> None:
    size = sum(map(len, locals_))
    formed = make(size).form(*locals_)
    assert [each.go for each in formed] == [GO] * len(locals_)
    for each, local in zip(formed, locals_, strict=True):
        assert each.links.leads == (0 in local)
        assert each.links.remote == tuple(index for index in range(size) if index not in local)


def test_launchers_may_start_at_different_times(make: Callable[[int], Launchers]) -> None:
    launchers = make(3)
    first = launchers.start(1)
    with pytest.raises(TimeoutError):
        first.result(0.5)
    second = launchers.start(0)
    with pytest.raises(TimeoutError):
        second.result(0.5)
    third = launchers.start(2)
    for each in (first, second, third):
        formed = each.result(20)
        assert formed.go == GO
        launchers.stack.callback(formed.links.close)


def test_the_listeners_are_gone_before_the_workers_come(make: Callable[[int], Launchers]) -> None:
    launchers = make(2)
    launchers.form((0,), (1,))
    for address in launchers.cluster.workers:
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((address.host, address.port), timeout=5)


@pytest.mark.parametrize(("present", "absent"), [([(0,), (1,)], "worker 2"), ([(1,), (2,)], "worker 0")])
def test_a_missing_worker_is_named_by_every_launcher(
    make: Callable[[int], Launchers], present: list[tuple[int, ...]], absent: str
) -> None:
    launchers = make(3)
    futures = [launchers.start(*local, timeout=1000) for local in present]
    launchers.pass_until_said(TWO_OF_THREE, *(index for index, *_ in present))
    launchers.ahead += 1000
    for future in futures:
        with pytest.raises(FormingError) as raised:
            future.result(20)
        assert f"{absent} (127.0.0.1:" in str(raised.value)
        assert "1 of its 3 workers did not come" in str(raised.value)
        assert "refuses the connection" in str(raised.value)
        assert raised.value.exit_code == 3


@pytest.mark.parametrize(
    ("said", "brief", "says"),
    [
        (b"SSH-2.0-OpenSSH_9.2\r\n", "something else listens there", "is no tfdist launcher"),
        (b"", "connection refused", "refuses"),
    ],
)
def test_something_else_at_a_workers_address_is_named(
    make: Callable[[int], Launchers], said: bytes, brief: str, says: str
) -> None:
    """A server that greets first, and one that hangs up."""
    launchers = make(2)
    server = launchers.stack.enter_context(bind_reusable(launchers.cluster.workers[1].port))
    server.listen()

    def greet() -> None:
        with contextlib.suppress(OSError):
            while True:
                with server.accept()[0] as caller:
                    caller.sendall(said)

    threading.Thread(target=greet, daemon=True).start()
    launchers.stack.callback(server.shutdown, socket.SHUT_RDWR)
    future = launchers.start(0, timeout=30)
    launchers.pass_until_said(brief, 0)
    launchers.pass_until(future.done)
    with pytest.raises(FormingError, match=says):
        future.result(20)


@pytest.mark.parametrize("hasty", [0, 1])
def test_the_launcher_that_gives_up_first_ends_the_forming_for_all(
    make: Callable[[int], Launchers], hasty: int
) -> None:
    """Each names whom it misses itself: the one that gave up may see others."""
    launchers = make(3)
    futures = [launchers.start(index, timeout=1000 if index == hasty else 1_000_000) for index in (0, 1)]
    launchers.pass_until_said(TWO_OF_THREE, 0, 1)
    launchers.ahead += 1000
    for future in futures:
        with pytest.raises(FormingError, match="worker 2") as raised:
            future.result(20)
        assert "Received from the launcher" not in str(raised.value)


@pytest.fixture
def killed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Launchers that give up say nothing to the others, as if they had been killed."""
    monkeypatch.setattr(PeerDiscovery, "lines", lambda discovery: [])


@pytest.mark.usefixtures("killed")
@pytest.mark.parametrize("index", [0, 1])
def test_a_launcher_that_was_killed_may_be_started_again(make: Callable[[int], Launchers], index: int) -> None:
    launchers = make(3)
    waiting, first = launchers.start(1 - index), launchers.start(index, timeout=0.7)
    with pytest.raises(FormingError):
        first.result(20)
    for each in (waiting, launchers.start(index), launchers.start(2)):
        launchers.stack.callback(each.result(20).links.close)


@pytest.mark.usefixtures("killed")
def test_the_chief_may_be_started_again_after_all_had_come(make: Callable[[int], Launchers]) -> None:
    def die() -> dict[str, Any]:
        raise KeyError("killed")

    launchers = make(3)
    others = [launchers.start(1), launchers.start(2)]
    with pytest.raises(KeyError):
        launchers.start(0, make_go=die).result(20)
    for each in (launchers.start(0), *others):
        launchers.stack.callback(each.result(20).links.close)


@pytest.mark.usefixtures("killed")
def test_a_launcher_that_came_and_left_is_named(make: Callable[[int], Launchers]) -> None:
    launchers = make(3)
    leader, follower = launchers.start(0, timeout=10_000), launchers.start(1, timeout=1000)
    launchers.pass_until_said(TWO_OF_THREE, 0, 1)
    launchers.ahead += 1000
    with pytest.raises(FormingError):
        follower.result(20)
    left = launchers.cluster.workers[1]
    launchers.pass_until_said(f"waiting for {left}, connection refused", 0)
    launchers.ahead += 10_000
    with pytest.raises(FormingError) as raised:
        leader.result(20)
    assert f"worker 1 ({left}) refuses the connection" in str(raised.value)


@pytest.mark.parametrize("odd", [0, 1, 2])
def test_another_list_is_an_error_at_once_and_everywhere(make: Callable[[int], Launchers], odd: int) -> None:
    launchers = make(3)
    other = Cluster((*launchers.cluster.workers, Address("127.0.0.1", 19_999)))
    futures = [launchers.start(i, cluster=other if i == odd else None, timeout=60) for i in range(3)]
    for future in futures:
        with pytest.raises(FormingError, match="another worker list"):
            future.result(20)


def test_other_versions_are_an_error_at_once(make: Callable[[int], Launchers], monkeypatch: pytest.MonkeyPatch) -> None:
    launchers = make(2)
    versions = iter([{"keras": "3.15.1"}, {"keras": "3.14.0"}])
    monkeypatch.setattr(hello_module, "versions", lambda: next(versions))
    futures = [launchers.start(0, timeout=60), launchers.start(1, timeout=60)]
    for future in futures:
        with pytest.raises(FormingError, match=r"keras 3\.1.* here and 3\.1"):
            future.result(20)


def test_another_order_is_an_error_that_says_so(make: Callable[[int], Launchers]) -> None:
    launchers = make(2)
    turned = Cluster(launchers.cluster.workers[::-1])
    futures = [launchers.start(0, timeout=60), launchers.start(0, cluster=turned, timeout=60)]
    for future in futures:
        with pytest.raises(FormingError, match="the workers in another order"):
            future.result(20)


def test_a_list_that_crosses_two_hosts_is_an_error(make: Callable[[int], Launchers]) -> None:
    """All have the same list, but two launchers say that they start worker 1."""
    launchers = make(3)
    futures = [launchers.start(0, timeout=60), launchers.start(1, timeout=60), launchers.start(1, timeout=60)]
    for future in futures:
        with pytest.raises(FormingError, match="started twice|starts worker"):
            future.result(20)


def test_a_worker_that_is_started_twice_is_an_error(make: Callable[[int], Launchers]) -> None:
    launchers = make(3)
    first, second = launchers.start(0, 1, timeout=60), launchers.start(1, 2, timeout=60)
    for future in (first, second):
        with pytest.raises(FormingError, match="started twice"):
            future.result(20)


def test_an_error_of_the_chief_ends_all_with_its_exit_code(make: Callable[[int], Launchers]) -> None:
    def refuse() -> dict[str, Any]:
        raise RunDirError("The run directory holds an earlier run.")

    launchers = make(2)
    leader, follower = launchers.start(0, make_go=refuse), launchers.start(1)
    with pytest.raises(RunDirError):
        leader.result(20)
    with pytest.raises(TfdistError, match="holds an earlier run") as raised:
        follower.result(20)
    assert raised.value.exit_code == 2


def test_an_unexpected_error_is_told_to_all_too(make: Callable[[int], Launchers]) -> None:
    launchers = make(2)

    def fail() -> dict[str, Any]:
        raise KeyError("boom")

    leader, follower = launchers.start(0, make_go=fail), launchers.start(1)
    with pytest.raises(KeyError):
        leader.result(20)
    with pytest.raises(FormingError, match="KeyError: 'boom'"):
        follower.result(10)


def test_whoever_knows_that_the_cluster_cannot_form_ends_the_wait_of_all(make: Callable[[int], Launchers]) -> None:
    launchers = make(3)
    is_lost = threading.Event()

    def watch() -> None:
        if is_lost.is_set():
            raise FormingError("The third has gone.")

    leader, follower = launchers.start(0, watch=watch, timeout=500), launchers.start(1, timeout=500)
    launchers.pass_until_said(TWO_OF_THREE, 0, 1)
    is_lost.set()
    for future in (leader, follower):
        with pytest.raises(FormingError, match="The third has gone"):
            future.result(20)


def test_who_has_not_come_in_time_is_known_by_what_was_seen(make: Callable[[int], Launchers]) -> None:
    launchers = make(3)
    leader, _ = launchers.start(0, timeout=30), launchers.start(1, timeout=30)
    launchers.pass_until_said(TWO_OF_THREE, 0)
    launchers.pass_until(leader.done)
    error = leader.exception()
    assert isinstance(error, LateError)
    assert error.missing == {2: DialOutcome(DialStatus.REFUSED)}


@pytest.mark.parametrize(("code", "exit_code"), [(2, 2), (0, 3), (-1, 3), (256, 3), ("2", 3), (True, 3), (None, 3)])
def test_a_launcher_that_gives_up_never_makes_the_job_look_successful(
    make: Callable[[int], Launchers], code: object, exit_code: int
) -> None:
    launchers = make(2)
    leader = launchers.start(0)
    with launchers.call(0) as caller:
        abort = {"abort": {"code": code, "text": "It is over.", "host": "h"}}
        caller.sendall(launchers.hello(1) + json.dumps(abort).encode() + b"\n")
        with pytest.raises(FormingError, match="It is over") as raised:
            leader.result(20)
    assert raised.value.exit_code == exit_code


@pytest.mark.parametrize(("stopped", "other"), [(0, 1), (1, 0)])
def test_a_signal_while_forming_ends_it_for_all(make: Callable[[int], Launchers], stopped: int, other: int) -> None:
    launchers = make(3)
    futures = {index: launchers.start(index, timeout=1000) for index in (0, 1)}
    launchers.pass_until_said(TWO_OF_THREE, 0, 1)
    launchers.signals[stopped].received.append(2)
    with pytest.raises(LauncherStopped) as ours:
        futures[stopped].result(20)
    with pytest.raises(FormingError, match="SIGINT") as theirs:
        futures[other].result(20)
    assert ours.value.exit_code == theirs.value.exit_code == 130


def test_events_reach_every_launcher(make: Callable[[int], Launchers]) -> None:
    leader, first, second = make(3).form((0,), (1,), (2,))
    first.links.tell(WorkerDone(1, 3, False))
    assert wait_for_events(leader) == [WorkerDone(1, 3, False)]
    failure = from_signal(2, 6)
    second.links.tell(AttemptEnded((failure,)))
    assert wait_for_events(leader) == [AttemptEnded((failure,))]
    assert wait_for_events(first) == [AttemptEnded((failure,))]


def test_long_reports_reach_every_launcher(make: Callable[[int], Launchers]) -> None:
    """The tracebacks and last lines of many workers, both ways; longer than what a socket takes at once."""
    leader, first, second = make(3).form((0,), (1,), (2,))
    failures = tuple(replace(from_signal(index, 6), traceback="x" * 1_500_000) for index in (1, 2))
    first.links.tell(AttemptEnded(failures))
    pool = ThreadPoolExecutor(1)
    heard = pool.submit(wait_for_events, second)
    with pool:
        while not (events := leader.links.events()):
            first.links.events()  # sends what did not fit
        assert events == [AttemptEnded(failures)]
        while not heard.done():
            leader.links.events()
        assert heard.result() == [AttemptEnded(failures)]


def test_after_the_release_no_launcher_is_lost(make: Callable[[int], Launchers]) -> None:
    leader, follower = make(2).form((0,), (1,))
    leader.links.tell(Released(3))
    leader.links.close()
    assert wait_for_events(follower) == [Released(3)]
    assert follower.links.events() == []


def test_a_stop_reaches_every_launcher(make: Callable[[int], Launchers]) -> None:
    leader, first, second = make(3).form((0,), (1,), (2,))
    first.links.tell(AttemptEnded(stop=Stop(130, "Ctrl-C")))
    assert wait_for_events(leader)[0].stop == Stop(130, "Ctrl-C")
    assert wait_for_events(second)[0].stop == Stop(130, "Ctrl-C")


@pytest.mark.parametrize("lost", [0, 1])
def test_a_launcher_that_is_gone_is_a_failure_everywhere(make: Callable[[int], Launchers], lost: int) -> None:
    formed = make(3).form((0,), (1,), (2,))
    formed[lost].links.close()
    for index, each in enumerate(formed):
        if index != lost:
            event = wait_for_events(each)[0]
            assert event.failures[0].kind == "lost"
            assert event.failures[0].index == lost


def test_all_agree_on_the_same_first_failure(make: Callable[[int], Launchers]) -> None:
    launchers = make(3)
    formed = launchers.form((0,), (1,), (2,))
    pool = launchers.stack.enter_context(ThreadPoolExecutor(3))
    settling = [
        pool.submit(each.links.settle, [from_signal(index, 6)] if index else [], 10)
        for index, each in enumerate(formed)
    ]
    settled = [future.result(20) for future in settling]
    assert settled[0] == settled[1] == settled[2]
    assert {failure.index for failure in settled[0]} == {1, 2}
