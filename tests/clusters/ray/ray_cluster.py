"""A real Ray cluster on hosts that are network namespaces: a head on the first, a node on each of the others."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.helpers.processes import command_line
from tests.helpers.waiting import until
from tfdist.verify.hosts.namespace_hosts import NamespaceHost, namespace_hosts

PORT = 6399
_RAY = Path(sys.executable).with_name("ray")
_OBJECTS = 100_000_000
_START_SECONDS = 300.0
_SETTINGS = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_DISABLE_IMPORT_WARNING": "1",
    "RAY_gcs_server_request_timeout_seconds": "120",
    # A node that was killed or cut off is noticed in seconds.
    "RAY_health_check_period_ms": "1000",
    "RAY_health_check_timeout_ms": "2000",
    "RAY_health_check_failure_threshold": "3",
    "RAY_health_check_initial_delay_ms": "1000",
}
_COUNT = """\
import sys
from ray._raylet import GcsClient
from ray.core.generated.gcs_pb2 import GcsNodeInfo
nodes = GcsClient(address=sys.argv[1]).get_all_node_info(timeout=10).values()
print(sum(node.state == GcsNodeInfo.ALIVE for node in nodes))
"""
"""Without the seconds that `ray.init` takes, for which there must be a node that is well."""


@dataclass
class RayCluster:
    """A cluster that is up.

    Attributes:
        hosts: The head's host, and those of the other nodes.
        folder: What all nodes share; drivers work there.
        nodes: The processes of `ray start`, one a host.
    """

    hosts: Sequence[NamespaceHost]
    folder: Path
    nodes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    @property
    def address(self) -> str:
        return f"{self.hosts[0].ipv4}:{PORT}"

    def environ(self, **more: str) -> dict[str, str]:
        """The environment of drivers and nodes: they find this checkout."""
        root = str(Path(__file__).parents[3])
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("RAY_", "TFDIST_"))}
        return {**kept, **_SETTINGS, "PYTHONPATH": root, "RAY_ADDRESS": self.address, **more}

    def start_driver(self, command: Sequence[str], **variables: str) -> subprocess.Popen[str]:
        """Starts a command on the head's host, in the shared folder."""
        return subprocess.Popen(
            [*self.hosts[0].prefix, *command],
            cwd=self.folder,
            env=self.environ(**variables),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def run(self, *command: str, seconds: float = 150, **variables: str) -> subprocess.CompletedProcess[str]:
        """Runs a command on the head's host to its end, which is bounded."""
        process = self.start_driver(command, **variables)
        try:
            out, err = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            out, err = process.communicate()
            raise AssertionError(f"{command} did not end in {seconds} s:\n{out}\n{err}") from None
        return subprocess.CompletedProcess(command, process.returncode, out, err)

    def processes(self, host: NamespaceHost, *parts: str) -> list[int]:
        """The processes on a host whose commands have all of these parts."""
        return [pid for pid in processes_of(host) if all(part in " ".join(command_line(pid)) for part in parts)]

    def kill_node(self, host: NamespaceHost) -> None:
        """Ends all that runs on a host at once, as a power cut does."""
        for pid in processes_of(host):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.nodes.pop(host.name).wait(timeout=20)

    def start_node(self, host: NamespaceHost) -> None:
        """Starts the head or a node on its host; returns at once."""
        number = self.hosts.index(host)
        where = (
            ["--head", f"--port={PORT}", "--include-dashboard=false", f"--temp-dir={self.folder}/ray"]
            if number == 0
            else [f"--address={self.address}"]
        )
        log = (self.folder / f"{host.name}.log").open("ab")
        common = ["--num-cpus=2", "--num-gpus=0", f"--object-store-memory={_OBJECTS}", "--disable-usage-stats"]
        self.nodes[host.name] = subprocess.Popen(
            [*host.prefix, str(_RAY), "start", *where, f"--node-ip-address={host.ipv4}", *common, "--block"],
            env=self.environ(),
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        log.close()

    def restore(self) -> None:
        """Starts nodes again that have ended, and waits until all are there."""
        try:
            until(self._has_all_nodes, _START_SECONDS, "not all nodes came")
        except AssertionError as error:
            logs = [f"{host.name}: {(self.folder / f'{host.name}.log').read_text()[-2000:]}" for host in self.hosts]
            raise AssertionError("\n".join([str(error), *logs])) from None

    def _has_all_nodes(self) -> bool:
        for host in self.hosts[1:]:
            # On a busy machine one gives up: Ray gives its parts half a minute, whatever is set.
            if host.name in self.nodes and self.nodes[host.name].poll() is not None:
                self.kill_node(host)
            if host.name not in self.nodes:
                self.start_node(host)
        return self.count_nodes() == len(self.hosts)

    def count_nodes(self) -> int:
        """The nodes that are alive, as the head says."""
        try:
            done = self.run(sys.executable, "-c", _COUNT, self.address, seconds=60)
        except AssertionError:
            return 0
        return int(done.stdout.split()[-1]) if done.returncode == 0 and done.stdout.split() else 0


@contextlib.contextmanager
def ray_cluster(count: int = 2) -> Iterator[RayCluster]:
    """A cluster with `count` nodes of two CPUs each; at the end nothing of it is left.

    Raises:
        NamespacesUnavailableError: There cannot be such hosts here.
    """
    # Ray's unix sockets lie below it, whose paths are bounded.
    folder = Path(tempfile.mkdtemp(prefix="tfr", dir="/tmp"))
    try:
        with namespace_hosts(count) as hosts:
            cluster = RayCluster(hosts, folder)
            try:
                cluster.start_node(hosts[0])
                until(lambda: _answers(cluster), _START_SECONDS, "the head did not come")
                cluster.restore()
                yield cluster
            finally:
                for host in hosts:
                    if host.name in cluster.nodes:
                        cluster.kill_node(host)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _answers(cluster: RayCluster) -> bool:
    head = cluster.hosts[0]
    if cluster.nodes[head.name].poll() is not None:
        cluster.kill_node(head)
        cluster.start_node(head)
    done = cluster.run(str(_RAY), "health-check", "--address", cluster.address, seconds=120)
    return done.returncode == 0


def processes_of(host: NamespaceHost) -> list[int]:
    """The processes in a host's network namespace, but for the one that keeps it."""
    own = os.stat(f"/proc/{host.keeper}/ns/net").st_ino
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if (entry / "ns/net").stat().st_ino == own and int(entry.name) != host.keeper:
                found.append(int(entry.name))
    return found


def parent_of(pid: int) -> int:
    """The process that has started another one."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
