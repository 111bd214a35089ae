from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.process_states import is_running
from tests.helpers.processes import processes_with
from tests.helpers.waiting import until
from tfdist.verify.hosts.namespace_hosts import (
    LINK,
    NamespacesUnavailableError,
    check_rate,
    namespace_hosts,
)


@pytest.mark.parametrize("rate", ["1gb", "gbit", "0mbit", "1.5gbit", "1gbit; reboot", ""])
def test_a_rate_that_is_none(rate: str) -> None:
    assert check_rate("100mbit") == "100mbit"
    with pytest.raises(ValueError, match="such as 100mbit or 1gbit. Received: "):
        check_rate(rate)


@pytest.mark.parametrize(
    ("user", "tools", "said"),
    [
        (1000, ("ip", "tc", "unshare", "nsenter", "find"), "network namespaces need root"),
        (0, ("unshare", "nsenter", "find"), "need ip, tc: install iproute2"),
        (0, ("ip", "tc", "find"), "need unshare, nsenter: install util-linux"),
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


def test_a_host_that_is_killed_has_no_process_left_and_the_others_have_theirs() -> None:
    starts_another = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'input()'])"
    try:
        with namespace_hosts(2) as hosts:
            started = [
                subprocess.Popen([*host.prefix, sys.executable, "-c", starts_another], stdin=subprocess.PIPE)
                for host in hosts
            ]
            try:
                until(lambda: [len(host.processes()) for host in hosts] == [2, 2])
                hosts[0].kill()
                assert [len(host.processes()) for host in hosts] == [0, 2]
                assert started[0].wait(20) == -signal.SIGKILL
            finally:
                for host in hosts:
                    host.kill()
                for each in started:
                    each.communicate(timeout=20)
            assert hosts[1].processes() == []
            hosts[0].ip("link", "show", LINK)  # they can be used again
    except NamespacesUnavailableError as error:
        pytest.skip(str(error))


_KILLED = """
import os, subprocess, sys, time
from tfdist.verify.hosts.namespace_hosts import namespace_hosts
with namespace_hosts(2) as hosts:
    # A daemon, in a session of its own, which has let go of whatever it had open.
    daemon = subprocess.Popen([*hosts[0].prefix, "setsid", "--fork", "sleep", "600"], stdout=subprocess.DEVNULL)
    daemon.wait()
    print(*(host.keeper for host in hosts), flush=True)
    time.sleep(600)
"""


def test_whoever_makes_hosts_and_is_killed_leaves_nothing_that_runs_there(tmp_path: Path) -> None:
    """Neither daemons nor the hosts."""
    mark = f"TFDIST_TEST_HOSTS={tmp_path}"
    name, value = mark.split("=")
    maker = subprocess.Popen(
        [sys.executable, "-c", _KILLED], env={**os.environ, name: value}, stdout=subprocess.PIPE, text=True
    )
    assert maker.stdout is not None
    if not maker.stdout.readline():
        pytest.skip("there are no network namespaces here")
    assert len(processes_with(mark)) == 4 + 1  # the maker, the keepers of the switch and of two hosts, and the daemon
    maker.kill()
    maker.communicate(timeout=20)
    until(lambda: not processes_with(mark), timeout=20, otherwise="processes are left")


def _said(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, timeout=150, check=True).stdout


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
