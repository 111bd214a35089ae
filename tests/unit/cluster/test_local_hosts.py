from __future__ import annotations

import socket
import threading
import time

import pytest

from tfdist.cluster.discover import local_hosts
from tfdist.errors import ClusterError

NAMES = {"here": ["127.0.1.1"], "there": ["192.0.2.7", "2001:db8::7"], "both": ["192.0.2.7", "127.0.0.1"]}


def test_names_and_addresses_of_this_machine_are_found() -> None:
    own_name = socket.gethostname().lower()
    wanted = ["127.0.0.1", "127.3.4.5", "localhost", "::1", own_name, "here", "there", "both", "unknown"]
    found = local_hosts(wanted, resolver=lambda host: NAMES.get(host, []))
    assert found == {"127.0.0.1", "127.3.4.5", "localhost", "::1", own_name, "here", "both"}


def test_every_address_of_an_interface_is_this_machines() -> None:
    # The kernel tells which source address it would use; nothing is sent.
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            pytest.skip("this machine has no route, and so no other address than loopback")
        own = probe.getsockname()[0]
    assert local_hosts([own, "192.0.2.1"]) == {own}


def test_a_resolver_that_never_answers_is_waited_for_once() -> None:
    gate = threading.Event()

    def resolver(host: str) -> list[str]:
        gate.wait(30)
        return []

    start = time.monotonic()
    found = local_hosts(["a", "b", "c", "127.0.0.1"], resolver=resolver, timeout=0.2)
    gate.set()
    assert found == {"127.0.0.1"}
    assert time.monotonic() - start < 5


def test_a_machine_that_binds_foreign_addresses_needs_an_index() -> None:
    with pytest.raises(ClusterError, match="--index"):
        local_hosts(["host1"], can_bind=lambda address: True)
