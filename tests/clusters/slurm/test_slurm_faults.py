"""Nodes of a real Slurm that stop answering while Slurm itself has not noticed."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path

import pytest

from tests.clusters.slurm.slurm_cluster import SlurmCluster
from tests.clusters.slurm.test_slurm_launch import ended, folder, launch
from tests.helpers.waiting import until

__all__ = ["folder"]

pytestmark = [pytest.mark.slow, pytest.mark.bound(600)]


@pytest.fixture
def patient(slurm: SlurmCluster) -> SlurmCluster:
    """A Slurm that takes five minutes to notice that a node is gone, which is its default."""
    config = slurm.folder / "slurm.conf"
    before = config.read_text()

    def configure(text: str) -> None:
        config.write_text(text)
        assert slurm.run("scontrol", "reconfigure").returncode == 0

    configure(before.replace("SlurmdTimeout=10", "SlurmdTimeout=300"))
    yield slurm
    configure(before)


def running(slurm: SlurmCluster, folder: Path, *options: str) -> str:
    job = launch(slurm, folder, "-N2", "--grace=2", *options, "train.py", f"0:touch:{folder}/ready", "*:train:0.1")
    until((folder / "ready").exists)
    return job


def launchers(slurm: SlurmCluster, node: int) -> list[int]:
    """The launchers of `tfdist train` on a node, and their workers."""
    found = []
    for pid in slurm.nodes[node].processes():
        with contextlib.suppress(OSError):
            command = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            if b"tfdist" in command or b"tests.workers.stand_in_worker" in command:
                found.append(pid)
    return found


def said(log: Path) -> list[str]:
    """The errors of launchers."""
    return [line for line in log.read_text().splitlines() if line.startswith("error: worker")]


def test_a_launcher_that_is_stopped_is_named_and_the_job_ends(patient: SlurmCluster, folder: Path) -> None:
    job = running(patient, folder)
    log = folder / f"train-{job}.out"
    for pid in launchers(patient, 1):
        if b"train" in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0"):
            os.kill(pid, signal.SIGSTOP)
    until(lambda: said(log), 150, otherwise="nobody says that a launcher does not answer")
    assert "worker 1 (n2" in said(log)[0] and "has not answered for 120 s: it is stopped" in said(log)[0]
    assert ended(patient, job, 300)[0] == "FAILED", log.read_text()
    assert [launchers(patient, node) for node in (0, 1)] == [[], []]


def test_a_node_that_is_cut_off_for_a_while_ends_its_part_and_the_job(patient: SlurmCluster, folder: Path) -> None:
    """It comes back when all launchers have ended, each by itself, and Slurm never hears of the one there."""
    job = running(patient, folder, "--start-timeout=20")
    log = folder / f"train-{job}.out"
    patient.nodes[1].set_link("down")
    try:
        until(lambda: said(log), 60, otherwise="no error")
        until(lambda: not launchers(patient, 1), 60, otherwise="the launcher that is cut off does not end")
        time.sleep(10)
    finally:
        patient.nodes[1].set_link("up")
    assert "worker 1 (n2" in said(log)[0]
    assert ended(patient, job, 200)[0] == "FAILED", log.read_text()
    patient.wait_for_nodes()
