"""Launchers among strangers, with and without a token, and workers that nobody else can reach."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.helpers.descriptors import descriptors
from tests.helpers.waiting import until
from tests.workers.launcher_processes import Launcher, Launchers, marked
from tests.workers.test_launch_hosts import listens, start_both
from tfdist.cluster import Cluster
from tfdist.cluster.interfaces import own_addresses

SECRET, OTHER = "5f0c1e-not-to-be-seen", "another-not-to-be-seen"


@pytest.fixture
def workers(two_ports: tuple[int, int]) -> str:
    first, second = two_ports
    return f"127.0.0.1:{first},127.0.0.2:{second}"


def with_token(token: str | None) -> tuple[str, ...]:
    return ("env", "-u", "TFDIST_TOKEN") if token is None else ("env", f"TFDIST_TOKEN={token}")


def files_that_hold(text: str, folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() and text.encode() in path.read_bytes()]


class Gate:
    """Where both workers wait until they are let go.

    Attributes:
        args: What the stand-ins are to do for it.
    """

    def __init__(self, folder: Path) -> None:
        self._marks = [folder / f"mark-{index}" for index in (0, 1)]
        self._fifos = [folder / f"go-{index}" for index in (0, 1)]
        for fifo in self._fifos:
            os.mkfifo(fifo)
        both = enumerate(zip(self._marks, self._fifos, strict=True))
        self.args = [f"{index}:touch:{path}" for index, pair in both for path in pair]

    def is_reached(self) -> bool:
        return all(path.exists() and path.read_text() for path in self._marks)

    def wait(self) -> list[int]:
        """The workers' process ids, once both are there."""
        until(self.is_reached)
        return [int(path.read_text()) for path in self._marks]

    def open(self) -> None:
        for fifo in self._fifos:
            fifo.read_text()


def command_lines(mark: str) -> str:
    lines = []
    for pid in marked(mark):
        with contextlib.suppress(OSError):
            lines.append(Path(f"/proc/{pid}/cmdline").read_text())
    return "\n".join(lines)


def test_workers_do_not_get_the_token(launchers: Launchers, workers: str) -> None:
    gate = Gate(launchers.folder)
    args = ["*:environ:TFDIST_TOKEN", *gate.args]
    both = start_both(launchers, workers, prefix=with_token(SECRET), args=args, show="all", verbose=True)
    pids = gate.wait()
    seen = "\n".join(command_lines(each.mark) for each in both)
    assert "tests.workers.stand_in_worker" in seen and "not-to-be-seen" not in seen
    for pid in pids:  # the workers' own environment, as anybody of this user reads it
        environ = Path(f"/proc/{pid}/environ").read_bytes()
        assert b"TFDIST_WORKER" in environ and b"not-to-be-seen" not in environ
    gate.open()
    assert [each.end() for each in both] == [0, 0], [each.err for each in both]
    assert all("TFDIST_TOKEN=None" in each.out for each in both)
    assert all("not-to-be-seen" not in each.out + each.err for each in both)
    assert files_that_hold("not-to-be-seen", launchers.folder) == []
    assert files_that_hold("TFDIST_TOKEN=None", launchers.folder) != []  # it does look into the logs


@pytest.mark.parametrize(
    ("first", "second", "says"),
    [
        (SECRET, OTHER, "has another TFDIST_TOKEN than this one"),
        (SECRET, None, "TFDIST_TOKEN, and this one has"),
        (None, SECRET, "TFDIST_TOKEN, and this one has"),
    ],
)
def test_different_tokens_end_both(
    launchers: Launchers, workers: str, first: str | None, second: str | None, says: str
) -> None:
    """The one without a token at once; the other waits for one that has its token."""
    both = [
        launchers.start(
            prefix=with_token(token), workers=workers, index=index, start_timeout=1000 if token is None else 10
        )
        for index, token in enumerate((first, second))
    ]
    assert [each.end() for each in both] == [3, 3], [each.err for each in both]
    for each in both:
        assert says in each.err and "Set the same on every host, or on none" in each.err
        assert "not-to-be-seen" not in each.out + each.err
    assert not (launchers.folder / "runs").exists()


def test_an_empty_token_is_a_mistake(launchers: Launchers, workers: str) -> None:
    launcher = launchers.start(prefix=with_token(""), workers=workers, index=0)
    assert launcher.end() == 2
    assert launcher.err.startswith("error: TFDIST_TOKEN is set and empty")


def test_failures_are_reported_with_a_token_too(launchers: Launchers, workers: str) -> None:
    args = ["1:raise:ValueError boom", "*:hang"]
    both = start_both(launchers, workers, prefix=with_token(SECRET), args=args)
    assert [each.end() for each in both] == [4, 4]
    assert all("error: worker 1 (" in each.err and "ValueError boom" in each.err for each in both)


def test_a_launcher_reports_whom_it_waits_for(launchers: Launchers, workers: str) -> None:
    first = launchers.start(workers=workers, index=0)
    assert first.process.stderr is not None
    line = first.process.stderr.readline()
    assert line == f"1 of 2 workers are here; waiting for {Cluster.parse(workers).workers[1]}, connection refused\n"
    second = launchers.start(workers=workers, index=1)
    assert [each.end() for each in (first, second)] == [0, 0], (first.err, second.err)
    assert first.err == "all 2 workers are here\n"
    assert second.err == ""


def listening_ports(launcher: Launcher) -> list[int]:
    """Ports on which the launcher itself takes connections."""
    own = set()
    for descriptor in Path(f"/proc/{launcher.process.pid}/fd").iterdir():
        with contextlib.suppress(OSError):
            own.add(os.readlink(descriptor))
    ports = []
    for table in ("tcp", "tcp6"):
        for line in Path("/proc/net", table).read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and f"socket:[{fields[9]}]" in own:
                ports.append(int(fields[1].rpartition(":")[2], 16))
    return ports


def call(workers: str, index: int, stack: contextlib.ExitStack) -> socket.socket:
    address = Cluster.parse(workers).workers[index]
    return stack.enter_context(socket.create_connection((address.host, address.port), timeout=10))


@pytest.mark.parametrize("token", [None, SECRET])
def test_strangers_do_not_keep_two_launchers_apart(launchers: Launchers, workers: str, token: str | None) -> None:
    first = launchers.start(prefix=with_token(token), workers=workers, index=0)
    until(lambda: listens(workers, 0))
    assert listening_ports(first) == [Cluster.parse(workers).workers[0].port]
    with descriptors(2000), contextlib.ExitStack() as strangers:
        for number in range(1000):
            stranger = call(workers, 0, strangers)
            with contextlib.suppress(OSError):
                stranger.sendall((b"", b"{", os.urandom(1000), b"GET / HTTP/1.1\r\n\r\n", b"x" * 5000)[number % 5])
        second = launchers.start(prefix=with_token(token), workers=workers, index=1)
        assert [each.end() for each in (first, second)] == [0, 0], (first.err, second.err)


def test_strangers_who_call_again_and_again_do_not_keep_them_apart(launchers: Launchers, workers: str) -> None:
    over = threading.Event()

    def pester(said: bytes) -> None:
        while not over.is_set():
            with contextlib.suppress(OSError), contextlib.ExitStack() as strangers:
                for _ in range(20):
                    call(workers, 0, strangers).sendall(said)

    first = launchers.start(workers=workers, index=0)
    until(lambda: listens(workers, 0))
    pests = [threading.Thread(target=pester, args=(said,)) for said in (b"", b"x" * 50_000, b'{"hello": {}}\n')]
    try:
        for pest in pests:
            pest.start()
        second = launchers.start(workers=workers, index=1)
        assert [each.end() for each in (first, second)] == [0, 0], (first.err, second.err)
    finally:
        over.set()
        for pest in pests:
            pest.join()


def test_while_a_job_runs_its_launchers_listen_nowhere(launchers: Launchers, workers: str) -> None:
    gate = Gate(launchers.folder)
    both = start_both(launchers, workers, args=["*:listen", *gate.args])
    gate.wait()
    assert [listening_ports(each) for each in both] == [[], []]
    with contextlib.ExitStack() as strangers:
        # The ports are the workers' now: what comes there is none of the launchers' business.
        for index in (0, 1):
            for _ in range(50):
                call(workers, index, strangers).sendall(os.urandom(1000))
        gate.open()
        assert [each.end() for each in both] == [0, 0], [each.err for each in both]


def skip_without_namespaces(launcher: Launcher, gate: Gate) -> None:
    until(lambda: gate.is_reached() or launcher.process.poll() is not None)
    if launcher.process.poll() is not None:
        assert launcher.end() == 2 and "--network private needs a network namespace" in launcher.err
        pytest.skip(f"no network namespaces here: {launcher.err}")


@pytest.mark.parametrize("network", ["host", "private"])
def test_workers_of_a_private_network_are_out_of_reach(launchers: Launchers, network: str) -> None:
    if shutil.which("nsenter") is None or os.geteuid() != 0:
        pytest.skip("looking into another's network namespace needs root and nsenter (util-linux)")
    gate = Gate(launchers.folder)
    launcher = launchers.start(nproc=2, network=network, args=["*:listen", *gate.args])
    skip_without_namespaces(launcher, gate)
    worker = gate.wait()[0]
    [log] = launcher.folder.glob("runs/*/logs/worker-0.0.log")
    # The launcher writes what the worker has said before it came to the gate.
    [port] = map(int, until(lambda: re.findall(r"listening on 127\.0\.0\.1:(\d+)\n", log.read_text())))
    # From inside both answer, so the port is open in either case.
    inside = f"import socket; socket.create_connection(('127.0.0.1', {port}), timeout=10)"
    subprocess.run(["nsenter", "-t", str(worker), "-n", sys.executable, "-c", inside], check=True, timeout=150)
    addresses = [address for address in own_addresses() if not address.startswith("fe80:")]
    assert "127.0.0.1" in addresses
    reached = []
    for address in addresses:
        with contextlib.suppress(OSError):
            socket.create_connection((address, port), timeout=10).close()
            reached.append(address)
    assert reached == (addresses if network == "host" else [])
    gate.open()
    assert launcher.end() == 0, launcher.err


def test_a_private_network_refuses_a_cluster_of_hosts(launchers: Launchers, workers: str) -> None:
    launcher = launchers.start(workers=workers, index=0, network="private")
    assert launcher.end() == 2
    assert "worker(s) 1 are started elsewhere" in launcher.err
    assert not (launcher.folder / "runs").exists()


def test_a_private_network_for_one_worker(launchers: Launchers) -> None:
    launcher = launchers.start(network="private", args=["*:print:done"])
    code = launcher.end()
    if code == 2 and "--network private needs a network namespace" in launcher.err:
        pytest.skip(f"no network namespaces here: {launcher.err}")
    assert (code, launcher.out) == (0, "done\n"), launcher.err
