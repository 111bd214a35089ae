"""A training whose hosts are lost and come back ends as one on one worker."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.helpers.cli_process import ROOT, tfdist
from tests.helpers.resumable_model import end_of, write_config
from tests.helpers.waiting import until
from tests.workers.test_resume import same_but_for_rounding
from tfdist.checkpoint.generation_claim import CLAIMS
from tfdist.rundir import RunDir
from tfdist.verify.hosts.namespace_hosts import NamespaceHost, NamespacesUnavailableError, namespace_hosts

_RESUMES = re.compile(r"resumes after step ([\d,]+)")
ACCUMULATED = 3
GATES = [40, 70]
"""The updates of the weights, one in three steps, after which a host is lost, and comes back."""


class HostLauncher:
    """`tfdist train` on one host, whose output goes into a file."""

    def __init__(self, host: NamespaceHost, folder: Path, *arguments: object) -> None:
        self.run = RunDir(folder / host.name)
        self.said = folder / f"{host.name}.said"
        command = [*host.prefix, sys.executable, "-m", "tfdist", "train", *map(str, arguments)]
        command += ["--run-dir", str(self.run.path)]
        environ = {**os.environ, "PYTHONPATH": str(ROOT)}
        with self.said.open("a") as out:
            self.process = subprocess.Popen(command, cwd=ROOT, env=environ, stdout=out, stderr=out)

    def says(self, text: str) -> bool:
        assert self.process.poll() is None, self.said.read_text()[-3000:]
        return text in self.said.read_text()

    def kill(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait(20)


@pytest.fixture
def hosts() -> Iterator[tuple[NamespaceHost, ...]]:
    with contextlib.ExitStack() as stack:
        try:
            made = stack.enter_context(namespace_hosts(3))
        except NamespacesUnavailableError as error:
            pytest.skip(str(error))
        yield made


@pytest.mark.slow
@pytest.mark.bound(280)
def test_a_training_that_loses_a_host_and_gets_it_back_ends_as_one_worker(
    hosts: tuple[NamespaceHost, ...], tmp_path: Path
) -> None:
    """Three hosts, two, three: no disk in common, the same global batches in the same order."""
    (tmp_path / "alone").mkdir()
    alone = write_config(tmp_path / "alone", seed=3)
    whole = RunDir(tmp_path / "whole")
    done = tfdist("train", alone, "--run-dir", whole.path, timeout=100)
    assert done.returncode == 0, done.stderr

    gate = {"build": "tests.workers.step_gate.StepGate", "args": {"folder": str(tmp_path), "updates": GATES}}
    config = write_config(tmp_path, seed=3, fit={"epochs": 9, "callbacks": [gate]})
    workers = ",".join(f"{host.ipv4}:20000" for host in hosts)
    options = ["--workers", workers, "--min-workers", "2", "--grow", "--rejoin-timeout", "3", config]
    running = [HostLauncher(host, tmp_path, *options) for host in hosts]
    try:
        until(lambda: running[0].says("") and (tmp_path / "reached-0").exists(), 100)
        running[2].kill()
        (tmp_path / "open-0").touch()
        until(lambda: running[0].says("") and (tmp_path / "reached-1").exists(), 100)
        running[2] = HostLauncher(hosts[2], tmp_path, "--resume", "auto", *options)
        until(lambda: running[0].says("can take part: the workers stop at a step"), 60)
        (tmp_path / "open-1").touch()
        assert [each.process.wait(100) for each in running] == [0, 0, 0], running[0].said.read_text()[-3000:]
    finally:
        for each in running:
            each.kill()
    chief = running[0].run
    starts = [_RESUMES.search(chief.log_file(0, attempt).read_text()) for attempt in range(3)]
    steps = [0 if found is None else int(found[1]) for found in starts]
    assert 0 < steps[1] <= ACCUMULATED * GATES[0] < ACCUMULATED * GATES[1] <= steps[2], steps
    said = running[0].said.read_text()
    assert f"2 of 3 workers start, without {hosts[2].ipv4}:20000" in said
    assert "3 of 3 workers start" in said
    assert not chief.failure_file.exists()
    # Each start of the workers had the checkpoints for itself.
    assert sorted(file.name for file in (chief.checkpoints_dir / CLAIMS).iterdir()) == [
        f"{number:08}.json" for number in (1, 2, 3)
    ]
    same_but_for_rounding(end_of(whole), end_of(chief))
