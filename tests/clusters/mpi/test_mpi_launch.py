"""`tfdist launch --on mpi` by Open MPI's mpirun over ssh, and mpirun on one machine, with stand-in workers."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.clusters.ssh.launches import REPOSITORY, Launch, Launches, MakeHosts
from tests.helpers.processes import command_line, environment, processes_with
from tests.helpers.waiting import until
from tfdist.multihost.mpi.call_back import SECRET
from tfdist.net import shared_token

pytestmark = pytest.mark.skipif(shutil.which("mpirun") is None, reason="needs mpirun: apt-get install openmpi-bin")


def launched(launches: Launches, *arguments: object) -> Launch:
    """Starts a launch over the test's hosts."""
    network = "10.91.0.0/24"
    mpirun = [
        *("mpirun", "--allow-run-as-root"),
        *("-mca plm_rsh_agent ssh", f"-mca plm_rsh_args '-F {launches.servers.config}'"),
        *(f"-mca oob_tcp_if_include {network}", f"-mca btl_tcp_if_include {network}"),
    ]
    return launches.start("launch", "--on", "mpi", "--mpirun", " ".join(mpirun), "--hosts", launches.hosts, *arguments)


def in_training(launches: Launches, *options: object) -> Launch:
    marks = [launches.folder / f"trains-{index}" for index in (0, 1)]
    touch = [f"{index}:touch:{mark}" for index, mark in enumerate(marks)]
    launch = launched(launches, *options, "train.py", "*:listen", *touch, "*:train:0.05")
    until(lambda: all(map(Path.exists, marks)) or launch.process.poll() is not None)
    assert launch.process.poll() is None, launch.process.communicate()
    return launch


def test_workers_on_all_hosts_are_one_job(ssh_hosts: MakeHosts) -> None:
    launches = ssh_hosts(2)
    launch = launched(launches, "--workers-per-host", 2, "--show", "all", "train.py", "*:listen", "*:print:hello")
    assert launch.end() == 0, launch.err
    assert launch.out.count("h1: hello\n") == launch.out.count("h2: hello\n") == 2
    logs = {log.name for log in (launches.run() / "logs").iterdir()}
    assert logs == {f"worker-{index}.0.log" for index in range(4)}


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs 2 cores")
def test_a_worker_has_all_cores_of_its_host(ssh_hosts: MakeHosts) -> None:
    """Open MPI binds each of one or two ranks to a single core, unless it is told otherwise."""
    launch = launched(ssh_hosts(1), "--show", "all", "train.py", "*:cores")
    assert launch.end() == 0, launch.err
    assert launch.out == f"h1: cores={sorted(os.sched_getaffinity(0))}\n"


def test_a_signal_stops_all_and_no_secret_is_in_a_command_line(ssh_hosts: MakeHosts) -> None:
    launches = ssh_hosts(2)
    launch = in_training(launches)
    found = launches.on_hosts()
    secrets = {
        value for pid in found for name, value in environment(pid).items() if name in {SECRET, shared_token.VARIABLE}
    }
    assert len(secrets) == 2
    for pid in found:
        assert not any(secret in word for secret in secrets for word in command_line(pid))
    os.killpg(launch.process.pid, signal.SIGINT)
    assert launch.end() == 130, launch.err
    assert launch.err.count("stopped: ") == 1


def test_a_launch_that_is_killed_leaves_nothing(ssh_hosts: MakeHosts) -> None:
    launches = ssh_hosts(2)
    launch = in_training(launches, "--grace", 5)
    launch.process.kill()
    launch.end()
    until(lambda: not launches.on_hosts(), timeout=40, otherwise="hosts went on")


def test_an_mpirun_that_dies_ends_the_run_everywhere(ssh_hosts: MakeHosts) -> None:
    launches = ssh_hosts(2)
    launch = in_training(launches, "--grace", 5)
    # Known before it is killed: what it has started is gone soon after it.
    (mpirun,) = [pid for pid in launches.on_hosts() if command_line(pid)[:1] == ["mpirun"]]
    os.kill(mpirun, signal.SIGKILL)
    assert launch.end() == 4, launch.err
    assert launch.err.count("error: ") == 1 and " was lost: " in launch.err


def test_a_worker_that_fails_is_reported_once_and_restarted(ssh_hosts: MakeHosts) -> None:
    """mpirun ends a job with the first rank that fails; it learns of no worker."""
    launches = ssh_hosts(2)
    actions = ["*:listen", "1@0:raise:ValueError boom", "*@0:hang", "1@1:signal:9", "*@1:hang"]
    launch = launched(launches, "--max-restarts", 1, "train.py", *actions)
    assert launch.end() == 4
    assert launch.err.count("all workers start again in") == 1
    assert launch.err.count("killed by SIGKILL") == 1, launch.err


def test_what_mpirun_cannot_start_is_said_once(ssh_hosts: MakeHosts) -> None:
    launches = ssh_hosts(2)
    launch = launched(launches, "--python", "/none/python", "train.py")
    assert launch.end() == 2
    assert launch.err.startswith("error: h1, h2: has no /none/python. Name its Python with --python PATH"), launch.err
    launch = launched(launches, "--hosts", "h1,none", "train.py")
    assert launch.end() == 3
    assert launch.err.startswith("error: h1, none: mpirun ended with exit code "), launch.err
    assert "Could not resolve hostname none" in launch.err
    launch = launches.start("launch", "--on", "mpi", "--hosts", launches.hosts, "train.py")
    assert launch.end() == 2
    says = 'mpirun refuses to run as root. Launch as another user, or with --mpirun "mpirun --allow-run-as-root"'
    assert launch.err.startswith(f"error: h1, h2: {says}"), launch.err
    launch = launched(launches, "none.py")
    assert launch.end() == 2
    assert launch.err.startswith("error: h1, h2: cannot read none.py in "), launch.err


def test_ranks_of_one_machine(tmp_path: Path) -> None:
    """`mpirun -np 3 tfdist train`, each rank a worker: all begin a line before one ends it, and it stays whole."""
    (tmp_path / "train.py").touch()
    begun = [f"{rank}:touch:begun-{rank}" for rank in range(3)] + [f"*:await:begun-{rank}" for rank in range(3)]
    actions = ["*:listen", "*:write:hel", *begun, "*:print:lo"]
    path = f"{REPOSITORY / 'tests/clusters/ssh/stand_in'}:{REPOSITORY}"
    mark = f"{os.getpid()}-{tmp_path}"
    command = ["mpirun", *(["--allow-run-as-root"] if os.geteuid() == 0 else []), "--oversubscribe", "-np", "3"]
    done = subprocess.run(
        [*command, sys.executable, "-m", "tfdist", "train", "--show", "all", "train.py", *actions],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": path, "TFDIST_TEST_MARK": mark},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("hello\n") == 3
    until(lambda: not processes_with(f"TFDIST_TEST_MARK={mark}"), timeout=20)
