"""A real Slurm of a few nodes on this machine, for tests: a controller and the nodes, each in a network namespace.

Everything is unique to the run and lies in one folder: the switch and its addresses, Slurm's ports, sockets, keys and
states, and the files that stand for GPUs. Nothing of the system is changed, and nothing is left at the end.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.helpers.processes import processes_with
from tests.helpers.waiting import until
from tfdist.verify.hosts.namespace_hosts import NamespaceHost, namespace_hosts

REPOSITORY = Path(__file__).resolve().parents[3]
NODES = 3
GPUS = 2
"""Of each node; files with the numbers of NVIDIA's devices, which no driver stands behind."""
CORES = 4

_TOOLS = {"slurmctld": "slurmctld", "slurmd": "slurmd", "srun": "slurm-client", "munged": "munge"}
_NVIDIA_MAJOR = 195
_READY_SECONDS = 60
_END_SECONDS = 5
_REQUEUE_SECONDS = 2.5

_CONFIG = """\
ClusterName=tfdist
SlurmctldHost=head({head})
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
SlurmctldPort=16817
SlurmdPort=16818
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool/%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/log/slurmctld.log
SlurmdLogFile={folder}/log/slurmd-%n.log
ProctrackType=proctrack/pgid
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerType=sched/backfill
SchedulerParameters=sched_interval=1,bf_interval=1,sched_min_interval=0,requeue_delay=1
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
SlurmdParameters=config_overrides
ReturnToService=2
KillWait=30
InactiveLimit=0
MpiDefault=none
GresTypes=gpu
JobRequeue=1
RequeueExit=143
MinJobAge=600
SlurmdTimeout=10
TmpFS=/tmp
NodeName=n[1-{nodes}] NodeAddr={addresses} CPUs={cores} Sockets=1 CoresPerSocket={cores} ThreadsPerCore=1 \
RealMemory=6000 Gres=gpu:{gpus} State=UNKNOWN
PartitionName=low  Nodes=ALL Default=YES MaxTime=INFINITE State=UP PriorityTier=1 PreemptMode=REQUEUE GraceTime=0
PartitionName=high Nodes=ALL MaxTime=INFINITE State=UP PriorityTier=10 PreemptMode=OFF
"""


class SlurmUnavailableError(Exception):
    """There is no Slurm to start here; the text says what lacks."""


@dataclass(frozen=True)
class SlurmCluster:
    """A Slurm that runs.

    Attributes:
        folder: Where all of its files are; jobs may write there, too.
        head: Where the controller runs, and commands such as srun.
        nodes: Its nodes n1, n2 and so on.
        mark: In the environment of all of its processes.
        daemons: Its processes.
    """

    folder: Path
    head: NamespaceHost
    nodes: tuple[NamespaceHost, ...]
    mark: str
    daemons: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def environ(self) -> dict[str, str]:
        """Variables with which Slurm's commands reach this cluster, and its jobs Python and this repository."""
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        return {**os.environ, "PATH": path, "PYTHONPATH": str(REPOSITORY), **_slurm_environ(self.folder, self.mark)}

    def start(
        self, *command: str, cwd: Path | None = None, environ: Mapping[str, str] | None = None
    ) -> subprocess.Popen[str]:
        """Starts a command on the head."""
        return subprocess.Popen(
            [*self.head.prefix, *command],
            cwd=cwd or self.folder,
            env={**self.environ, **(environ or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(
        self, *command: str, cwd: Path | None = None, environ: Mapping[str, str] | None = None, timeout: float = 60
    ) -> subprocess.CompletedProcess[str]:
        """Runs a command on the head to its end; one that takes longer than `timeout` seconds is killed."""
        with self.start(*command, cwd=cwd, environ=environ) as process:
            try:
                out, err = process.communicate(timeout=timeout)
            except BaseException:
                process.kill()
                raise
        return subprocess.CompletedProcess(command, process.returncode, out, err)

    def job(self, number: str) -> dict[str, str]:
        """What Slurm says of a job, by its names: `JobState`, `Restarts`, `ExitCode` and so on."""
        said = self.run("scontrol", "--oneliner", "show", "job", number)
        assert said.returncode == 0, said.stderr
        return dict(field.split("=", 1) for field in said.stdout.split() if "=" in field)

    def submit(self, script: str, *options: str, cwd: Path) -> str:
        """Submits a batch script with its output in `slurm.out`; returns the job's number."""
        (cwd / "job.sh").write_text(script)
        said = self.run("sbatch", "--parsable", "--output=slurm.out", "--open-mode=append", *options, "job.sh", cwd=cwd)
        assert said.returncode == 0, said.stderr
        return said.stdout.strip()

    def state(self, job: str) -> str:
        """`PENDING`, `RUNNING`, `COMPLETED`, `FAILED` and so on."""
        return self.job(job)["JobState"]

    def start_again(self, job: str) -> None:
        """Starts a job that was requeued now; Slurm waits for two minutes."""
        until(lambda: self.state(job) == "PENDING", otherwise=f"{job} was not requeued")
        # A node does not start a job again within the second in which it has ended it.
        time.sleep(_REQUEUE_SECONDS)
        said = self.run("scontrol", "update", "job", job, "StartTime=now")
        assert said.returncode == 0, said.stderr

    def start_node(self, number: int) -> None:
        """Starts the daemon of a node on which none runs."""
        _start_daemon(self, self.nodes[number - 1], f"n{number}", "slurmd", "-D", "-N", f"n{number}")

    def wait_for_nodes(self) -> None:
        """Waits until all nodes can run jobs."""
        deadline = time.monotonic() + _READY_SECONDS
        while self.run("sinfo", "-h", "-N", "-p", "low", "-o", "%t").stdout.split() != ["idle"] * NODES:
            assert time.monotonic() < deadline, f"Slurm did not come up:\n{_logs(self.folder)}"
            time.sleep(0.1)

    def clear(self) -> None:
        """Cancels every job, and waits until nodes are free."""
        self.run("scancel", "--full", "--signal=KILL", "--user=root")
        self.run("scancel", "--user=root")
        until(lambda: not self.run("squeue", "-h").stdout.strip(), otherwise="jobs do not end")


def check_available() -> None:
    """Raises `SlurmUnavailableError` where the packages or the rights lack."""
    if os.geteuid() != 0:
        raise SlurmUnavailableError("a Slurm in network namespaces needs root")
    lacking = sorted({package for tool, package in _TOOLS.items() if _which(tool) is None})
    if lacking:
        raise SlurmUnavailableError(f"there is no Slurm here: apt-get install {' '.join(lacking)}")


@contextlib.contextmanager
def slurm_cluster() -> Iterator[SlurmCluster]:
    """Starts a Slurm, and ends it with all that its jobs have left.

    Raises:
        SlurmUnavailableError: It cannot be started here.
        NamespacesUnavailableError: There can be no network namespaces.
    """
    check_available()
    # Not in pytest's folder: the path of a socket has 107 letters at most.
    folder = Path(tempfile.mkdtemp(prefix="tfdist-slurm-", dir="/tmp"))
    mark = f"{os.getpid()}-{secrets.token_hex(4)}"
    try:
        with namespace_hosts(NODES + 1) as (head, *nodes):
            cluster = SlurmCluster(folder, head, tuple(nodes), mark)
            try:
                _write_files(cluster)
                _start_daemons(cluster)
                yield cluster
            finally:
                _end(cluster.daemons, mark)
    finally:
        shutil.rmtree(folder)


def _which(tool: str) -> str | None:
    return shutil.which(tool, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")


def _slurm_environ(folder: Path, mark: str) -> dict[str, str]:
    return {"SLURM_CONF": str(folder / "slurm.conf"), "TFDIST_TEST_SLURM": mark}


def _write_files(cluster: SlurmCluster) -> None:
    folder = cluster.folder
    for name in ("state", "log", "gpu", *(f"spool/n{number}" for number in range(1, NODES + 1))):
        (folder / name).mkdir(parents=True)
    for number in range(GPUS):
        device = os.makedev(_NVIDIA_MAJOR, number)
        os.mknod(folder / "gpu" / f"nvidia{number}", stat.S_IFCHR | 0o600, device)
    addresses = ",".join(node.ipv4 for node in cluster.nodes)
    values = {"folder": folder, "head": cluster.head.ipv4, "addresses": addresses, "nodes": NODES}
    (folder / "slurm.conf").write_text(_CONFIG.format(**values, cores=CORES, gpus=GPUS))
    (folder / "gres.conf").write_text(f"NodeName=n[1-{NODES}] Name=gpu File={folder}/gpu/nvidia[0-{GPUS - 1}]\n")
    # Otherwise slurmd looks for the version below /sys/fs/cgroup, which not every container has.
    (folder / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n")
    (folder / "munge.key").touch(mode=0o600)
    (folder / "munge.key").write_bytes(secrets.token_bytes(1024))
    names = [f"{node.ipv4} n{number}" for number, node in enumerate(cluster.nodes, 1)]
    (folder / "hosts").write_text("\n".join(["127.0.0.1 localhost", f"{cluster.head.ipv4} head", *names, ""]))


def _start_daemon(cluster: SlurmCluster, host: NamespaceHost, name: str, daemon: str, *arguments: str) -> None:
    folder = cluster.folder
    # The names of the hosts resolve for it and its jobs alone, by a file that only they see.
    script = 'mount --bind "$1" /etc/hosts && hostname "$2" && shift 2 && exec "$@"'
    inside = ("unshare", "--mount", "--uts", "sh", "-c", script, "sh", str(folder / "hosts"), name)
    with open(folder / "log" / f"{daemon}-{name}.out", "wb") as out:
        cluster.daemons.append(
            subprocess.Popen(
                [*host.prefix, *inside, _which(daemon) or daemon, *arguments],
                env=cluster.environ,
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        )


def _start_daemons(cluster: SlurmCluster) -> None:
    folder, head = cluster.folder, cluster.head
    files = {"key-file": "munge.key", "socket": "munge.socket", "pid-file": "munge.pid", "seed-file": "munge.seed"}
    options = [f"--{option}={folder / file}" for option, file in files.items()]
    options += ["--force", "--foreground", f"--log-file={folder}/log/munged.log"]
    _start_daemon(cluster, head, "head", "munged", *options)
    until((folder / "munge.socket").exists, _READY_SECONDS, otherwise=_logs(folder))
    _start_daemon(cluster, head, "head", "slurmctld", "-D", "-c")
    for number in range(1, NODES + 1):
        cluster.start_node(number)
    cluster.wait_for_nodes()


def _logs(folder: Path) -> str:
    return "\n".join(f"{log.name}: {log.read_text()[-1000:]}" for log in sorted((folder / "log").iterdir()))


def _end(processes: Sequence[subprocess.Popen[bytes]], mark: str) -> None:
    """Ends the daemons, then whatever they or their jobs have left."""
    for process in reversed(processes):
        process.terminate()
    deadline = time.monotonic() + _END_SECONDS
    for process in processes:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(max(0.0, deadline - time.monotonic()))
    for pid in processes_with(f"TFDIST_TEST_SLURM={mark}"):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, 9)
    for process in processes:
        process.wait(_END_SECONDS)
