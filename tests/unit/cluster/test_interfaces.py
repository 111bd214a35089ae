from __future__ import annotations

import socket
from pathlib import Path

import pytest

from tfdist.cluster.interfaces import ipv4_addresses, ipv6_addresses, own_addresses, public_addresses

FIB_TRIE = """\
Main:
  +-- 0.0.0.0/0 3 0 5
     |-- 0.0.0.0
        /0 universe UNICAST
     +-- 127.0.0.0/8 2 0 2
           |-- 127.0.0.0
              /8 host LOCAL
           |-- 127.0.0.1
              /32 host LOCAL
        |-- 127.255.255.255
           /32 link BROADCAST
     +-- 203.0.113.0/24 2 0 2
           |-- 203.0.113.9
              /32 link UNICAST
              /32 host LOCAL
Local:
     +-- 127.0.0.0/8 2 0 2
           |-- 127.0.0.1
              /32 host LOCAL
           |-- 203.0.113.9
              /32 host LOCAL
           |-- 203.0.113.255
              /32 link BROADCAST
"""
IF_INET6 = """\
fe8000000000000000fc00fffe000001 04 40 20 80     eth0
00000000000000000000000000000001 01 80 10 80       lo
"""


def test_the_kernels_lists_are_read(tmp_path: Path) -> None:
    assert ipv4_addresses(FIB_TRIE) == ["127.0.0.1", "203.0.113.9"]
    assert ipv6_addresses(IF_INET6) == ["fe80::fc:ff:fe00:1", "::1"]
    (tmp_path / "fib_trie").write_text(FIB_TRIE)
    (tmp_path / "if_inet6").write_text(IF_INET6)
    assert own_addresses(tmp_path) == ("127.0.0.1", "203.0.113.9", "fe80::fc:ff:fe00:1", "::1")


def test_a_kernel_without_the_lists_has_no_addresses(tmp_path: Path) -> None:
    assert own_addresses(tmp_path) == ()


def test_this_machines_addresses_are_among_them() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            # The kernel tells which source address it would use; nothing is sent.
            probe.connect(("192.0.2.1", 9))
        except OSError:
            pytest.skip("this machine has no route, and so no other address than loopback")
        assert probe.getsockname()[0] in own_addresses()


@pytest.mark.parametrize(
    ("host", "public"),
    [
        ("8.8.8.8", True),
        ("2600:1f18::1", True),
        ("::ffff:8.8.8.8", True),  # an IPv4 address on a socket that takes both kinds
        ("::ffff:10.0.0.1", False),
        ("fe80::1%eth0", False),
        ("10.1.2.3", False),
        ("172.16.0.1", False),
        ("192.168.1.1", False),
        ("100.64.0.1", False),  # shared behind a provider's NAT (RFC 6598)
        ("169.254.1.1", False),
        ("127.0.0.1", False),
        ("203.0.113.9", False),  # documentation
        ("224.0.1.1", False),
        ("ff0e::1", False),
        ("::1", False),
        ("fe80::1", False),
        ("fd00::1", False),
        ("0.0.0.0", False),
        ("host1", False),  # a name says nothing by itself
        ("localhost", False),
        ("", False),
    ],
)
def test_public_addresses(host: str, public: bool) -> None:
    assert public_addresses([host]) == ((host,) if public else ())


def test_each_public_address_is_returned_once() -> None:
    assert public_addresses(["8.8.8.8", "10.0.0.1", "8.8.4.4", "8.8.8.8"]) == ("8.8.8.8", "8.8.4.4")
