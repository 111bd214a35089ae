from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tfdist.cluster import Cluster, Membership, discover
from tfdist.errors import UsageError
from tfdist.launch.network_isolation import enter_network, public_warning

REPOSITORY = Path(__file__).resolve().parents[3]
NOBODY = 65534

HERE = Membership(Cluster.parse("h:20000,h:20001"), (0, 1), source="--workers")
PART = Membership(Cluster.parse("h:20000,i:20000,j:20000"), (0,), source="--workers")
ALONE = Membership(None, (0,))

ENTER = """
import socket
from tfdist.cluster import discover
from tfdist.launch.network_isolation import enter_network
membership = enter_network("private", discover("127.0.0.1:20000,127.0.0.1:20001", environ={}))
print(membership.cluster)
print(*sorted(name for _, name in socket.if_nameindex()))
server = socket.create_server(("127.0.0.1", 20000))
socket.create_connection(("127.0.0.1", 20000), timeout=5).close()
try:
    socket.create_connection(("192.0.2.1", 9), timeout=5)
except OSError as error:
    print(error.strerror)
"""


def run(script: str, python: str, user: int | None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [python, "-c", script],
        user=user,
        group=user,
        extra_groups=None if user is None else [],
        cwd=REPOSITORY,
        env={"PYTHONPATH": str(REPOSITORY), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=30,
    )


def check(done: subprocess.CompletedProcess[str]) -> None:
    if "which this system does not let this user make" in done.stderr:
        pytest.skip(f"this system lets this user make no network namespace: {done.stderr.splitlines()[-1][:300]}")
    assert done.returncode == 0, done.stderr
    cluster, names, unreached = done.stdout.splitlines()
    assert cluster == "127.0.0.1:20000,127.0.0.1:20001"
    # Tunnel devices, which some kernels put into every namespace, are down and have no address.
    assert "lo" in names.split() and not any(name.startswith(("eth", "en", "wl")) for name in names.split())
    assert unreached == "Network is unreachable"


def test_a_private_network_has_loopback_and_nothing_else() -> None:
    """In a process of its own, as it cannot leave that network."""
    check(run(ENTER, sys.executable, None))


def test_users_may_enter_one_where_the_system_lets_them() -> None:
    if os.geteuid() != 0:
        pytest.skip("the test above ran as a user already")
    for python in (sys.executable, "/usr/bin/python3"):
        # Whose home holds this Python may keep others out of it.
        with contextlib.suppress(OSError):
            if run("import tfdist.launch.network_isolation", python, NOBODY).returncode == 0:
                check(run(ENTER, python, NOBODY))
                return
    pytest.skip("no other user can run a Python that imports tfdist from where it lies")


def must_not_move() -> None:
    pytest.fail("a namespace was entered")


def test_in_the_hosts_network_nothing_changes() -> None:
    for membership in (HERE, PART, ALONE):
        assert enter_network("host", membership, must_not_move) is membership


@pytest.mark.parametrize("membership", [PART, Membership(PART.cluster, (0,), (0, 1, 2), source="Slurm")])
def test_a_private_network_has_one_launcher(membership: Membership) -> None:
    with pytest.raises(UsageError, match=r"worker\(s\) 1, 2 are started elsewhere") as raised:
        enter_network("private", membership, must_not_move)
    assert raised.value.exit_code == 2


def test_in_a_private_network_addresses_are_loopback() -> None:
    moves: list[str] = []

    def enter(membership: Membership) -> Membership:
        return enter_network("private", membership, lambda: moves.append("moved"))

    assert str(enter(HERE).cluster) == "127.0.0.1:20000,127.0.0.1:20001"
    assert enter(ALONE) == ALONE
    chosen = discover(nproc=2, environ={})
    assert enter(chosen) == chosen
    assert len(moves) == 3


def test_a_system_that_does_not_allow_it_is_an_error_that_says_what_would() -> None:
    def refuse() -> None:
        raise PermissionError(1, "Operation not permitted")

    with pytest.raises(UsageError, match="Operation not permitted.*CAP_SYS_ADMIN.*firewall"):
        enter_network("private", HERE, refuse)


@pytest.mark.parametrize(
    ("membership", "addresses", "says"),
    [
        (HERE, ["127.0.0.1", "10.0.0.1", "fe80::1"], []),
        (HERE, ["10.0.0.1", "8.8.8.8"], ["(8.8.8.8)", "20000, 20001", "or use --network private"]),
        (HERE, ["8.8.8.1", "8.8.8.2", "8.8.8.3", "8.8.8.4", "8.8.8.5"], ["8.8.8.3 and 2 more)"]),
        (discover(nproc=2, environ={}), ["8.8.8.8"], ["(8.8.8.8)"]),  # TensorFlow listens on all, not on 127.0.0.1
        (PART, ["8.8.8.8"], ["port(s) 20000 "]),
        (Membership(Cluster.parse("8.8.4.4:20000,i:20001"), (0,)), ["10.0.0.1"], ["(8.8.4.4)"]),  # behind NAT
        (Membership(Cluster.parse("8.8.4.4:20000,i:20001"), (1,)), ["10.0.0.1"], []),
        (ALONE, ["8.8.8.8"], []),  # no server, no port
    ],
)
def test_a_public_address_is_warned_of(membership: Membership, addresses: Sequence[str], says: list[str]) -> None:
    warning = public_warning("host", membership, addresses)
    assert (warning is not None) == bool(says)
    for words in says:
        assert words in (warning or "")
    assert public_warning("private", membership, addresses) is None


def test_a_private_network_is_no_advice_for_several_machines() -> None:
    assert "--network private" not in (public_warning("host", PART, ["8.8.8.8"]) or "")
