from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.helpers.ports import free_ports
from tfdist.cluster import Cluster, Membership
from tfdist.errors import PortTakenError
from tfdist.net.port_reservation import PortReservation, bind_reusable, reserve_ports


@pytest.fixture
def port() -> int:
    """A free port."""
    [found] = free_ports(1)
    return found


@pytest.fixture
def server(port: int) -> Iterator[socket.socket]:
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        listener.bind(("127.0.0.1", port))
        listener.listen()
        yield listener


def test_a_held_port_is_refused_to_others_and_open_to_the_worker(port: int) -> None:
    with PortReservation() as hold:
        hold.take(port)
        with socket.socket() as stranger:
            stranger.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            with pytest.raises(OSError):
                stranger.bind(("127.0.0.1", port))
        with bind_reusable(port) as worker:  # as TensorFlow does
            worker.listen()
            with socket.create_connection(("127.0.0.1", port), timeout=5):
                worker.accept()[0].close()


def test_a_second_job_is_told_who_has_the_port_and_gets_it_afterwards(port: int) -> None:
    with PortReservation() as first:
        first.take(port)
        with PortReservation() as second, pytest.raises(PortTakenError) as raised:
            second.take(port)
        assert f"another tfdist job: pid {os.getpid()} (" in str(raised.value)
        assert "--workers" in str(raised.value)
    with PortReservation() as third:
        third.take(port)


def test_a_job_that_was_killed_holds_nothing(port: int) -> None:
    script = (
        "import sys\nfrom tfdist.net.port_reservation import PortReservation\n"
        f"hold = PortReservation(); hold.take({port}); print('held', flush=True); sys.stdin.read()"
    )
    other = subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    with other:
        assert other.stdout is not None and other.stdout.readline() == b"held\n"
        with PortReservation() as hold, pytest.raises(PortTakenError, match=f"pid {other.pid}"):
            hold.take(port)
        other.kill()
        other.wait(10)
    with PortReservation() as hold:
        hold.take(port)


def test_a_listener_that_would_share_the_port_is_named_too(port: int, server: socket.socket) -> None:
    taken = rf"Port {port}.* taken by pid {os.getpid()} \("
    with PortReservation() as hold, pytest.raises(PortTakenError, match=taken):
        hold.take(port)


def test_connections_that_outlive_their_program_are_explained(port: int) -> None:
    with socket.socket() as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        server.bind(("127.0.0.1", port))
        server.listen()
        client = socket.create_connection(("127.0.0.1", port), timeout=5)
        accepted = server.accept()[0]
        accepted.close()  # the side that closes first keeps the port for a minute
        client.close()
    with PortReservation() as hold, pytest.raises(PortTakenError, match="after a minute"):
        hold.take(port)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may use every port")
def test_a_privileged_port_is_refused() -> None:
    with PortReservation() as hold, pytest.raises(PortTakenError, match="may not be used by this user"):
        hold.take(1)


def test_the_ports_of_the_local_workers_are_held() -> None:
    here, there = free_ports(2)
    membership = Membership(Cluster.parse(f"127.0.0.1:{here},127.0.0.2:{there}"), (0,), (0, 1))
    with PortReservation() as hold:
        assert reserve_ports(membership, hold) == membership
        with PortReservation() as other, pytest.raises(PortTakenError):
            other.take(here)
        with PortReservation() as other:
            other.take(there)


def test_a_port_that_tfdist_chose_is_replaced_if_it_is_taken(port: int, server: socket.socket) -> None:
    membership = Membership(Cluster.parse(f"127.0.0.1:{port},127.0.0.1:{port + 1}"), (0, 1), ports_chosen=True)
    with PortReservation() as hold:
        cluster = reserve_ports(membership, hold).cluster
        assert cluster is not None
        ports = [address.port for address in cluster.workers]
        assert port not in ports and len(set(ports)) == 2
        for each in ports:
            with PortReservation() as other, pytest.raises(PortTakenError):
                other.take(each)


def test_one_worker_needs_no_port() -> None:
    with PortReservation() as hold:
        assert reserve_ports(Membership(None, (0,)), hold).cluster is None
