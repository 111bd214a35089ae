from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.comparison.namespace_hosts import (
    LINK,
    NamespacesUnavailableError,
    check_rate,
    namespace_hosts,
)
from tests.benchmarks.process_states import is_running


@pytest.mark.parametrize("rate", ["1gb", "gbit", "0mbit", "1.5gbit", "1gbit; reboot", ""])
def test_a_rate_that_is_none(rate: str) -> None:
    assert check_rate("100mbit") == "100mbit"
    with pytest.raises(ValueError, match="such as 100mbit or 1gbit. Received: "):
        check_rate(rate)


@pytest.mark.parametrize(
    ("user", "tools", "said"),
    [
        (1000, ("ip", "tc", "unshare", "nsenter"), "network namespaces need root"),
        (0, ("unshare", "nsenter"), "need ip, tc: install iproute2"),
        (0, ("ip", "tc"), "need unshare, nsenter: install util-linux"),
    ],
)
def test_what_lacks_is_said(user: int, tools: tuple[str, ...], said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: user)
    monkeypatch.setattr(shutil, "which", lambda tool: tool if tool in tools else None)
    with pytest.raises(NamespacesUnavailableError, match=said), namespace_hosts(2):
        pytest.fail("hosts were made")


def test_hosts_meet_at_a_rate_and_are_gone_afterwards() -> None:
    try:
        with namespace_hosts(3, "100mbit") as hosts:
            keepers = [host.keeper for host in hosts]
            assert len({Path(f"/proc/{keeper}/ns/net").readlink() for keeper in [*keepers, os.getpid()]}) == 4
            first, last = hosts[0], hosts[-1]
            limits = _said(*first.prefix, "tc", "qdisc", "show", "dev", LINK)
            assert "tbf" in limits and "rate 100Mbit" in limits
            assert _said(*last.prefix, "hostname").strip() == last.name
            assert _exchanged(first.prefix, last.prefix, last.ipv4) == "through the switch"
            raise KeyboardInterrupt
    except NamespacesUnavailableError as error:
        pytest.skip(str(error))
    except KeyboardInterrupt:
        assert not any(map(is_running, keepers))


def _said(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, timeout=20, check=True).stdout


def _exchanged(first: tuple[str, ...], last: tuple[str, ...], address: str) -> str:
    """What a process on the first host gets from one on the last."""
    serve = (
        "import socket; server = socket.create_server(('', 5000)); print('up', flush=True); server.settimeout(20)\n"
        "server.accept()[0].sendall(b'through the switch')"
    )
    ask = f"import socket; print(socket.create_connection(({address!r}, 5000), 20).recv(100).decode())"
    server = subprocess.Popen([*last, sys.executable, "-c", serve], stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None and server.stdout.readline() == "up\n"
        return _said(*first, sys.executable, "-c", ask).strip()
    finally:
        server.kill()
        server.communicate()
