from __future__ import annotations

import os
import socket

from tfdist.cluster import ports

TABLE = """  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:4E20 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4711 1 0
   1: 0100007F:4E20 0100007F:9C40 06 00000000:00000000 03:00000000 00000000     0        0 0 3 0
   2: 00000000:4E21 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4712 1 0
   3: 0100007F:4E22 0100007F:9C40 01 00000000:00000000 00:00000000 00000000     0        0 4713 1 0
"""


def test_candidates_are_every_port_once_below_the_ephemeral_ones() -> None:
    for start in (0, 1, 11_999, 12_000, 10**9):
        found = list(ports.candidate_ports(start))
        assert sorted(found) == list(range(20000, 32000))
    assert next(ports.candidate_ports(0)) != next(ports.candidate_ports(1))


def test_the_kernels_table_is_read() -> None:
    assert ports.listener_inodes(TABLE, 20000) == ["4711"]
    assert ports.listener_inodes(TABLE, 20001) == ["4712"]
    assert ports.listener_inodes(TABLE, 20002) == []
    assert ports.has_recent_connections(TABLE, 20000)
    assert not ports.has_recent_connections(TABLE, 20001)
    assert ports.listener_inodes("", 20000) == []


def test_a_listener_is_named() -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        port = server.getsockname()[1]
        assert ports.port_owner(port) is None  # bound, and not yet listening
        server.listen()
        owner = ports.port_owner(port)
    assert owner is not None
    assert owner.startswith(f"pid {os.getpid()} (")


def test_the_owner_of_an_abstract_socket_is_named() -> None:
    name = f"tfdist-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX) as lock:
        lock.bind(f"\0{name}")
        owner = ports.unix_socket_owner(name)
    assert owner is not None
    assert owner.startswith(f"pid {os.getpid()} (")
    assert ports.unix_socket_owner(name) is None
