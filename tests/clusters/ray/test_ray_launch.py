"""`tfdist launch --on ray` on a real Ray cluster of two nodes, with stand-in workers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.clusters.ray.ray_cluster import RayCluster, parent_of
from tests.helpers.processes import command_line, environment
from tests.helpers.waiting import until

pytestmark = pytest.mark.bound(900)
"""The first one starts the cluster, and one after a lost node waits for the next."""

DRIVER = (sys.executable, "-m", "tests.clusters.ray.stand_in_driver")
END_SECONDS = 150
STOPPED_SECONDS = 400
"""What is stopped is given up after two minutes, the grace and a minute and a half."""


@pytest.fixture
def work(cluster: RayCluster) -> Iterator[RayCluster]:
    """The cluster with a script in its folder; at the end of a test none of its launchers is left."""
    (cluster.folder / "none.py").touch()
    yield cluster
    until(lambda: not launchers(cluster), END_SECONDS, f"launchers are left: {launchers(cluster)}")


def launchers(cluster: RayCluster) -> list[int]:
    return [pid for host in cluster.hosts for pid in cluster.processes(host, "stand_in_launcher")]


def running(cluster: RayCluster, name: str) -> subprocess.Popen[str]:
    """A job on all four CPUs that trains until it is told to stop."""
    begun = [cluster.folder / f"{name}-{index}" for index in range(4)]
    touching = [f"{index}:touch:{path}" for index, path in enumerate(begun)]
    command = [*DRIVER, "--nproc", "4", "--run-dir", f"runs/{name}", "none.py", *touching, "*:train:0.2"]
    driver = cluster.start_driver(command)
    until(lambda: all(path.exists() for path in begun), END_SECONDS)
    return driver


def ended(driver: subprocess.Popen[str], seconds: float = END_SECONDS) -> tuple[int, str, str]:
    out, err = driver.communicate(timeout=seconds)
    return driver.returncode, out, err


def test_workers_on_both_nodes_are_one_job(work: RayCluster) -> None:
    done = work.run(*DRIVER, "--nproc", "4", "--show", "all", "none.py", "*:print:hello", FOO="bar")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    other = f"[{work.hosts[1].name}] "
    # The chief is where the driver is; each node's launcher has the two workers of its node.
    assert sorted(lines) == sorted(
        ["hello", "hello", f"{other}hello", f"{other}hello", *(line for line in lines if "worker(s) 2, 3" in line)]
    )
    assert len(lines) == 5


def test_output_and_exit_code_are_the_chiefs(work: RayCluster) -> None:
    done = work.run(*DRIVER, "--nproc", "2", "none.py", "0:print:of the chief", "1:print:of the other", "*:code:7")
    assert done.returncode == 7
    assert "of the chief" in done.stdout
    assert "of the other" not in done.stdout


def test_a_failure_is_told_once(work: RayCluster) -> None:
    done = work.run(*DRIVER, "--nproc", "4", "none.py", "3:raise:ValueError boom", "*:hang")
    assert done.returncode == 4
    assert done.stderr.count("failed: ValueError: ValueError boom") == 1
    assert done.stderr.startswith(f"error: worker 3 ({work.hosts[1].name}, {work.hosts[1].ipv4}:")


def test_variables_and_directory_reach_the_workers_and_the_token_no_command_line(work: RayCluster) -> None:
    (work.folder / "elsewhere").mkdir(exist_ok=True)
    (work.folder / "elsewhere/there.py").touch()
    arguments = ["--nproc", "2", "--env", "FOO", "--cwd", str(work.folder / "elsewhere"), "--show", "all"]
    driver = work.start_driver([*DRIVER, *arguments, "there.py", "*:environ:FOO", "*:await:go"], FOO="bar")
    (launcher,) = until(lambda: launchers(work), END_SECONDS)
    token = environment(launcher)["TFDIST_TOKEN"]
    assert len(token) == 64
    assert not [word for pid in (launcher, driver.pid) for word in command_line(pid) if token in word]
    (work.folder / "elsewhere/go").touch()
    code, out, err = ended(driver)
    assert code == 0, err
    assert out.count("FOO=bar") == 2


@pytest.mark.parametrize(
    ("arguments", "code", "expected"),
    [
        (("--nproc", "5"), 3, "has 4 CPUs on 2 nodes, of which 4 CPUs are free, and no place for the job"),
        (("--nproc", "1", "--gpus-per-worker", "1"), 3, "Expected room for 1 worker with 1 CPU and 1 GPU each"),
        (("--nproc", "3", "--placement", "strict-pack"), 3, "3 CPUs in all, all on one node"),
        (("--nproc", "2", "--cwd", "/nowhere"), 2, "There is no directory /nowhere on this node"),
        ((), 2, "--nproc N"),
        (("--nproc", "1", "--address", "10.91.0.2:99"), 3, "No Ray cluster answers at the address '10.91.0.2:99'"),
    ],
)
def test_what_cannot_be_started_is_refused(
    work: RayCluster, arguments: tuple[str, ...], code: int, expected: str
) -> None:
    done = work.run(*DRIVER, "--placement-timeout", "2", *arguments, "none.py")
    assert (done.returncode, expected in done.stderr) == (code, True), done.stderr


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_to_the_driver_stops_the_workers(work: RayCluster, number: signal.Signals, code: int) -> None:
    driver = running(work, number.name)
    os.kill(driver.pid, number)
    found, out, err = ended(driver)
    assert found == code, err
    assert "stopped after" in out


def test_a_driver_that_is_killed_leaves_no_launcher(work: RayCluster) -> None:
    """The fixture looks for them."""
    driver = running(work, "driver")
    driver.kill()
    assert ended(driver)[0] == -signal.SIGKILL


def test_a_killed_actor_is_named_and_ends_the_job(work: RayCluster) -> None:
    driver = running(work, "actor")
    host = work.hosts[1]
    (launcher,) = work.processes(host, "stand_in_launcher")
    actor = parent_of(launcher)
    os.kill(actor, signal.SIGKILL)
    code, _, err = ended(driver)
    assert code == 4
    lost = f"error: lost {host.name} ({host.ipv4}), which has workers 2 to 3: the process of its actor, pid {actor},"
    assert lost in err
    assert "--resume auto" in err


def test_a_killed_node_is_named_and_ends_the_job(work: RayCluster) -> None:
    driver = running(work, "node")
    host = work.hosts[1]
    work.kill_node(host)
    code, out, err = ended(driver)
    assert code == 4
    assert f"error: lost {host.name} ({host.ipv4}), which has workers 2 to 3: the node died, or cannot be" in err
    assert "raylet" not in out + err


def test_a_node_that_is_cut_off_is_named_and_ends_the_job(work: RayCluster) -> None:
    driver = running(work, "cut")
    host = work.hosts[1]
    host.set_link("down")
    try:
        code, _, err = ended(driver)
    finally:
        host.set_link("up")
    assert code == 4
    assert f"error: lost {host.name}" in err


@pytest.mark.slow
def test_an_actor_that_is_stopped_is_named_and_ends_the_job(work: RayCluster) -> None:
    driver = running(work, "stopped-actor")
    host = work.hosts[1]
    (launcher,) = work.processes(host, "stand_in_launcher")
    os.kill(parent_of(launcher), signal.SIGSTOP)
    code, _, err = ended(driver, STOPPED_SECONDS)
    assert code == 4
    assert f"error: lost {host.name} ({host.ipv4}), which has workers 2 to 3: its actor has not answered for 90" in err


@pytest.mark.slow
def test_a_launcher_that_is_stopped_is_named_and_ends_the_job(work: RayCluster) -> None:
    driver = running(work, "stopped-launcher")
    host = work.hosts[1]
    (launcher,) = work.processes(host, "stand_in_launcher")
    os.kill(launcher, signal.SIGSTOP)
    code, _, err = ended(driver, STOPPED_SECONDS)
    assert code == 4
    assert f"error: worker 2 ({host.name}, {host.ipv4}:" in err
    assert "the launcher of worker(s) 2, 3 has not answered for 120 s: it is stopped" in err
