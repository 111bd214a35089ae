"""Doctors meet on loopback, each in a thread of its own."""

from __future__ import annotations

import itertools
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from tests.unit.doctor.loopback import on_loopback
from tfdist.cluster import Cluster, Membership
from tfdist.cluster.cluster_spec import Address
from tfdist.doctor.check_result import CheckStatus
from tfdist.doctor.mesh.doctor_link import DoctorHello
from tfdist.doctor.mesh.link_measurement import Clocks
from tfdist.doctor.mesh.mesh import Connections, Mesh, check_connections
from tfdist.doctor.mesh.pair import Pair
from tfdist.errors import PortTakenError
from tfdist.net.connection_attempts import look_up
from tfdist.net.port_reservation import PortReservation

CLOCKS = Clocks(time.monotonic, time.time)
QUICK = Clocks(lambda: 5 * time.monotonic(), time.time)
"""A clock by which waits that end without an event end sooner."""


def each_reading(seconds: float) -> Clocks:
    """A clock that advances by so much each time it is read, so that a slow machine loses no time by it."""
    readings = itertools.count()
    return Clocks(lambda: seconds * next(readings), time.time)


SECONDS = 30.0
"""No mesh here lasts so long unless something is wrong."""


@dataclass
class Hosts:
    """Hosts, each a doctor in a thread."""

    pool: ThreadPoolExecutor
    said: list[str] = field(default_factory=list)

    def meet(self, cluster: Cluster, index: int, seconds: float = SECONDS, **changed: Any) -> Future[list[Pair]]:
        """Starts one that speaks for worker `index`, with some of its hello changed."""
        clocks = changed.pop("clocks", CLOCKS)
        resolver = changed.pop("resolver", look_up)
        hello = replace(DoctorHello.own(cluster, (index,)), host=f"host{index}", **changed)
        return self.pool.submit(Mesh(cluster, hello, clocks, seconds, self.said.append, resolver).run)

    def check(self, cluster: Cluster, *local: int, clocks: Clocks = CLOCKS) -> Future[Connections]:
        """Starts one that takes its ports first."""
        membership = Membership(cluster, local)
        return self.pool.submit(check_connections, membership, SECONDS, clocks, self.said.append)


@pytest.fixture
def hosts() -> Iterator[Hosts]:
    with ThreadPoolExecutor(8) as pool:
        yield Hosts(pool)


def statuses(pairs: list[Pair] | tuple[Pair, ...]) -> dict[tuple[int, int], CheckStatus]:
    return {pair.key: pair.status for pair in pairs}


def test_three_hosts_meet_and_all_know_of_every_pair(hosts: Hosts) -> None:
    cluster = on_loopback(3)
    found = [hosts.check(cluster, index) for index in range(3)]
    reports = [future.result() for future in found]
    pairs = reports[0].pairs
    assert set(statuses(pairs)) == {(0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1)}
    assert set(statuses(pairs).values()) == {CheckStatus.OK}
    assert reports[1].pairs == reports[2].pairs == pairs
    assert all(pair.round_trip and pair.bandwidth and pair.address == "127.0.0.1" for pair in pairs)
    assert [check.status for report in reports for check in report.checks] == [CheckStatus.OK] * 3


def test_the_ports_are_free_afterwards(hosts: Hosts) -> None:
    cluster = on_loopback(2)
    found = [hosts.check(cluster, index) for index in range(2)]
    assert all(future.result() for future in found)
    with PortReservation() as hold:
        for address in cluster.workers:
            hold.take(address.port)


def test_one_doctor_stands_for_all_workers_of_its_machine(hosts: Hosts) -> None:
    cluster = on_loopback(3)
    both, other = hosts.check(cluster, 0, 1), hosts.check(cluster, 2)
    pairs = both.result().pairs
    assert pairs == other.result().pairs
    assert {(pair.sources, pair.target, pair.status) for pair in pairs} == {
        ((0, 1), 0, CheckStatus.OK),
        ((0, 1), 1, CheckStatus.OK),
        ((0, 1), 2, CheckStatus.OK),
        ((2,), 0, CheckStatus.OK),
        ((2,), 1, CheckStatus.OK),
    }


@pytest.mark.parametrize(
    ("changed", "status", "text"),
    [
        ({"versions": {"keras": "3.14.0"}}, CheckStatus.FAIL, "other versions: keras"),
        ({"token": True}, CheckStatus.FAIL, "TFDIST_TOKEN is set"),
        ({"clocks": Clocks(time.monotonic, lambda: time.time() + 60)}, CheckStatus.WARN, "the clock of host"),
    ],
)
def test_hosts_that_differ_are_told(hosts: Hosts, changed: dict[str, Any], status: CheckStatus, text: str) -> None:
    cluster = on_loopback(2)
    found = [hosts.meet(cluster, 0), hosts.meet(cluster, 1, **changed)]
    for future in found:
        pairs = future.result()
        assert statuses(pairs) == {(0, 1): status, (1, 0): status}
        assert all(text in pair.found for pair in pairs)


def test_a_doctor_with_another_list_is_named_on_both_sides(hosts: Hosts) -> None:
    cluster = on_loopback(2)
    swapped = Cluster((cluster.workers[1], cluster.workers[0]))
    found = [hosts.check(cluster, 0, clocks=QUICK), hosts.check(swapped, 0, clocks=QUICK)]
    for future, mine, theirs in zip(found, (cluster, swapped), (swapped, cluster), strict=True):
        report = future.result()
        assert [check.name for check in report.checks if check.status is CheckStatus.FAIL] == ["worker list"]
        assert str(theirs) in report.checks[-1].found and str(mine) in report.checks[-1].found
        assert [pair.status for pair in report.pairs] == [CheckStatus.FAIL]
        assert "another worker list" in report.pairs[0].found


def test_a_port_in_use_is_reported_by_both_and_left_alone(hosts: Hosts) -> None:
    cluster = on_loopback(2)
    with PortReservation() as job, socket.socket() as listener:
        job.take(cluster.workers[1].port)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        listener.bind(("127.0.0.1", cluster.workers[1].port))
        listener.listen()
        listener.settimeout(20)
        first, second = hosts.check(cluster, 0), hosts.check(cluster, 1)
        seen, own = first.result(), second.result()
        # The job was sent nothing.
        connection, _ = listener.accept()
        with connection:
            assert connection.recv(1) == b""
    assert [check.status for check in own.checks] == [CheckStatus.FAIL]
    assert "belongs to another tfdist job" in own.checks[0].found
    assert statuses(seen.pairs) == statuses(own.pairs) == {(0, 1): CheckStatus.FAIL, (1, 0): CheckStatus.OK}
    assert "belongs to another tfdist job" in seen.pairs[0].found
    assert (seen.pairs[0].code, own.checks[0].code) == (2, 2)


def test_a_running_job_at_both_ends_is_told_without_waiting_for_a_doctor_that_cannot_be_met(hosts: Hosts) -> None:
    cluster = on_loopback(2)
    port = cluster.workers[1].port
    with socket.create_server(("127.0.0.1", port)) as job:
        job.settimeout(20)
        found = hosts.meet(cluster, 0, taken={0: "taken by a job"})
        connection, _ = job.accept()
        with connection:
            connection.sendall(bytes.fromhex("000000040000000000"))
            (pair,) = found.result()
            assert connection.recv(1) == b""
    assert pair.status is CheckStatus.FAIL
    assert "a gRPC server answers" in pair.found


def test_a_name_that_does_not_resolve_is_told(hosts: Hosts) -> None:
    """One host cannot resolve the other's name, and hears from the other that it is there."""
    cluster = on_loopback(2)
    found = [hosts.meet(cluster, 0, resolver=lambda address: [], clocks=QUICK), hosts.meet(cluster, 1)]
    for future in found:
        pairs = future.result()
        assert statuses(pairs) == {(0, 1): CheckStatus.FAIL, (1, 0): CheckStatus.OK}
        assert pairs[0].found == "its name does not resolve on this host"


def test_a_look_up_that_never_ends_takes_no_longer_than_the_time_given(hosts: Hosts) -> None:
    gate = threading.Event()

    def resolver(address: Address) -> list[Any]:
        gate.wait(30)
        return []

    try:
        (pair,) = hosts.meet(on_loopback(2), 0, seconds=2.0, resolver=resolver).result()
    finally:
        gate.set()
    assert pair.found == "its name is still being looked up on this host"


def test_a_port_that_says_nothing_is_told(hosts: Hosts) -> None:
    cluster = on_loopback(2)
    with socket.create_server(("127.0.0.1", cluster.workers[1].port)):
        (pair,) = hosts.meet(cluster, 0, clocks=each_reading(0.1)).result()
    assert "says nothing for 4 s" in pair.found


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (lambda c: c.sendall(b"SSH-2.0-OpenSSH_9.2\r\n"), "no tfdist doctor of this version"),
        (lambda c: None, "closes it without a word"),
    ],
)
def test_a_port_where_something_else_listens_is_told(
    hosts: Hosts, answer: Callable[[socket.socket], None], text: str
) -> None:
    cluster = on_loopback(2)
    with socket.create_server(("127.0.0.1", cluster.workers[1].port)) as server:
        found = hosts.meet(cluster, 0, seconds=4.0)
        while not found.done():
            server.settimeout(0.05)
            try:
                connection, _ = server.accept()
            except TimeoutError:
                continue
            with connection:
                answer(connection)
        (pair,) = found.result()
    assert text in pair.found


def test_a_missing_host_is_named_while_waiting_and_at_the_end(hosts: Hosts) -> None:
    cluster = on_loopback(2)
    (pair,) = hosts.meet(cluster, 0, seconds=4.0).result()
    assert "refuses the connection: no doctor listens there" in pair.found
    assert any(f"worker 1 ({cluster.workers[1]}): refuses the connection" in line for line in hosts.said)


def test_what_a_doctor_told_before_it_left_stays_known(hosts: Hosts) -> None:
    """Worker 2 never comes; the doctor of worker 1 was started earlier, so it leaves earlier."""
    cluster = on_loopback(3)
    first, second = hosts.meet(cluster, 0, seconds=12.0), hosts.meet(cluster, 1, seconds=6.0)
    expected = {(0, 1): CheckStatus.OK, (0, 2): CheckStatus.FAIL, (1, 0): CheckStatus.OK, (1, 2): CheckStatus.FAIL}
    assert statuses(first.result()) == expected
    assert statuses(second.result()) == {key: status for key, status in expected.items() if key != (0, 2)}


def test_a_port_that_nobody_can_listen_on_is_an_error(hosts: Hosts) -> None:
    cluster = on_loopback(2)
    unlistenable = pytest.raises(PortTakenError, match="cannot listen on its workers' ports")
    with socket.create_server(("127.0.0.1", cluster.workers[0].port)), unlistenable:
        hosts.meet(cluster, 0).result()


def test_strangers_neither_stop_nor_enter_a_mesh(hosts: Hosts) -> None:
    cluster = on_loopback(2)
    found = hosts.check(cluster, 0)
    strangers = []
    for data in (b"GET / HTTP/1.1\r\n\r\n", b'{"hello": {}}\n', b'{"pair": {}}\n{"done": true}\n', b""):
        stranger = connect(cluster.workers[0].port)
        stranger.sendall(data)
        strangers.append(stranger)
    other = hosts.check(cluster, 1)
    assert (
        statuses(found.result().pairs)
        == statuses(other.result().pairs)
        == {(0, 1): CheckStatus.OK, (1, 0): CheckStatus.OK}
    )
    for stranger in strangers:
        stranger.close()


def connect(port: int) -> socket.socket:
    """Connects as soon as somebody listens."""
    deadline = time.monotonic() + 60
    while True:
        try:
            return socket.create_connection(("127.0.0.1", port), timeout=20)
        except ConnectionRefusedError:
            assert time.monotonic() < deadline, "nobody listens"
