"""`tfdist.ray.Trainer` on a real Ray cluster of two nodes: the numbers, and what remains of them after failures."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.clusters.ray.ray_cluster import RayCluster
from tests.helpers.waiting import until

pytestmark = pytest.mark.bound(900)
"""The first one starts the cluster, and one after a lost node waits for the next."""

SECONDS = 240
_MODULE = "tests.clusters.ray.train_digits"


def start(cluster: RayCluster, name: str, *, workers: int = 2, seconds: float = 0) -> subprocess.Popen[str]:
    storage = cluster.folder / "storage"
    storage.mkdir(exist_ok=True)
    return cluster.start_driver([sys.executable, "-m", _MODULE, name, str(storage), str(workers), str(seconds)])


def end(driver: subprocess.Popen[str]) -> tuple[dict[str, Any], str]:
    """The result, and all that was printed."""
    try:
        out, err = driver.communicate(timeout=SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(driver.pid, signal.SIGKILL)
        raise
    assert driver.returncode == 0, out[-4000:] + err[-4000:]
    (line,) = [line for line in out.splitlines() if line.startswith('{"metrics"')]
    return json.loads(line), out + err


def weights(cluster: RayCluster, name: str) -> list[np.ndarray]:
    with np.load(cluster.folder / f"storage/{name}.npz") as stored:
        return [stored[array] for array in stored.files]


def wait_for_step(cluster: RayCluster, name: str, step: int) -> None:
    file = cluster.folder / f"storage/{name}.step"
    until(lambda: file.exists() and int(file.read_text() or 0) >= step, SECONDS)


def resumes(cluster: RayCluster, name: str) -> list[dict[str, Any]]:
    file = cluster.folder / f"storage/{name}/tfdist/resumes.jsonl"
    return [json.loads(line) for line in file.read_text().splitlines()]


@pytest.fixture(scope="module")
def undisturbed(running_ray: RayCluster) -> dict[str, Any]:
    """The result of a run to which nothing happens; its weights are those of `undisturbed`."""
    return end(start(running_ray, "undisturbed"))[0]


def test_each_epoch_is_reported_with_the_model(cluster: RayCluster, undisturbed: dict[str, Any]) -> None:
    assert set(undisturbed["metrics"]) == {"epoch", "accuracy", "loss"}
    assert undisturbed["metrics"]["epoch"] == 2
    assert (Path(undisturbed["checkpoint"]) / "model.keras").stat().st_size > 10_000
    lines = (cluster.folder / "storage/undisturbed/tfdist/metrics.jsonl").read_text().splitlines()
    assert json.loads(lines[-1])["loss"] == undisturbed["metrics"]["loss"]


def test_a_killed_actor_is_named_and_the_run_resumes_at_the_next_step(
    cluster: RayCluster, undisturbed: dict[str, Any]
) -> None:
    driver = start(cluster, "actor", seconds=0.2)
    wait_for_step(cluster, "actor", 14)
    (actor,) = cluster.processes(cluster.hosts[1], "RayTrainWorker")
    os.kill(actor, signal.SIGKILL)
    result, printed = end(driver)
    assert f"pid: {actor}" in printed
    (resume,) = resumes(cluster, "actor")
    assert resume["total"] >= 12
    assert result["metrics"] == undisturbed["metrics"]
    for one, other in zip(weights(cluster, "actor"), weights(cluster, "undisturbed"), strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_killed_node_is_named_and_the_run_resumes_on_the_other(
    cluster: RayCluster, undisturbed: dict[str, Any]
) -> None:
    driver = start(cluster, "node", seconds=0.2)
    wait_for_step(cluster, "node", 14)
    cluster.kill_node(cluster.hosts[1])
    result, printed = end(driver)
    assert cluster.hosts[1].ipv4 in printed
    assert [resume["total"] >= 12 for resume in resumes(cluster, "node")][-1:] == [True]
    assert result["metrics"] == undisturbed["metrics"]
    # Both workers are on one node now, whose sums are in the same order.
    for one, other in zip(weights(cluster, "node"), weights(cluster, "undisturbed"), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.slow
def test_a_worker_that_is_stopped_is_replaced_and_the_run_resumes(
    cluster: RayCluster, undisturbed: dict[str, Any]
) -> None:
    driver = start(cluster, "stopped", seconds=0.2)
    wait_for_step(cluster, "stopped", 14)
    (actor,) = cluster.processes(cluster.hosts[1], "RayTrainWorker")
    os.kill(actor, signal.SIGSTOP)
    result, printed = end(driver)
    assert "stopped sending heartbeats" in printed and "/job:worker/replica:0/task:1" in printed
    assert resumes(cluster, "stopped")[-1]["total"] >= 12
    assert result["metrics"] == undisturbed["metrics"]
    assert not os.path.exists(f"/proc/{actor}")


@pytest.mark.slow
def test_a_node_that_is_cut_off_is_left_out_and_the_run_resumes_on_the_other(
    cluster: RayCluster, undisturbed: dict[str, Any]
) -> None:
    driver = start(cluster, "cut", seconds=0.2)
    wait_for_step(cluster, "cut", 14)
    cut = cluster.hosts[1]
    (actor,) = cluster.processes(cut, "RayTrainWorker")
    cut.set_link("down")
    try:
        result, printed = end(driver)
        until(lambda: not os.path.exists(f"/proc/{actor}"), SECONDS, "the worker that is cut off does not end")
    finally:
        cut.set_link("up")
    assert cut.ipv4 in printed
    assert resumes(cluster, "cut")[-1]["total"] >= 12
    assert result["metrics"] == undisturbed["metrics"]
