"""Sums over the replicas of several workers: every size and type, many at once, shared in memory and compressed."""

from __future__ import annotations

import contextlib
import json
import subprocess
from pathlib import Path

import pytest

from tests.helpers.cli_process import begun, tfdist
from tests.helpers.marks import slow
from tests.workers.worker_scripts import EMULATED
from tfdist.verify.hosts.namespace_hosts import NamespaceHost

SCRIPT = Path(__file__).parent / "scripts" / "sums.py"
WORKERS = 3


ROUNDINGS = [("none", 2**-24), ("float16", 2**-11), ("bfloat16", 2**-8)]


@pytest.mark.slow
@pytest.mark.parametrize(("compression", "rounding"), ROUNDINGS)
def test_sums_are_exact_and_compressed_gradients_off_by_what_is_said(
    tmp_path: Path, compression: str, rounding: float
) -> None:
    """On every worker. Each gradient is rounded, and so is each partial sum on the way: on three workers two."""
    out = tmp_path / "said"
    options = ["--nproc", WORKERS, "--compression", compression, "--run-dir", tmp_path / "run"]
    done = tfdist("train", *options, SCRIPT, out, timeout=100)
    assert done.returncode == 0, done.stderr
    is_compressed = compression != "none"
    check(out, "ring" if is_compressed else "shm", rounding, is_compressed=is_compressed)


@pytest.mark.bound(150)
@pytest.mark.parametrize(("compression", "rounding"), [ROUNDINGS[0], *(slow(*each) for each in ROUNDINGS[1:])])
def test_sums_by_the_paths_of_nccl(tmp_path: Path, compression: str, rounding: float) -> None:
    """Of several dtypes at once, beside sparse ones, in branches and in loops."""
    out = tmp_path / "said"
    options = ["--nproc", WORKERS, "--compression", compression, "--run-dir", tmp_path / "run"]
    done = tfdist("train", *options, SCRIPT, out, timeout=100, environ=EMULATED)
    assert done.returncode == 0, done.stderr
    check(out, "nccl", rounding, is_compressed=compression != "none")


@pytest.mark.bound(150)
@pytest.mark.parametrize(("compression", "rounding"), [slow("none", 2**-24), ("bfloat16", 2**-8)])
def test_hosts_sum_in_memory_first(
    hosts: tuple[NamespaceHost, NamespaceHost], tmp_path: Path, compression: str, rounding: float
) -> None:
    """Two workers on one host and one on the other. What is compressed is the sum of a host."""
    first, second = hosts
    workers = f"{first.ipv4}:20000,{first.ipv4}:20001,{second.ipv4}:20000"
    options = ["--workers", workers, "--compression", compression]
    with contextlib.ExitStack() as stack:
        launchers = [
            stack.enter_context(
                begun(
                    *("train", *options, "--run-dir", tmp_path / host.name, SCRIPT, tmp_path / "said"),
                    prefix=host.prefix,
                    output=subprocess.PIPE,
                )
            )
            for host in hosts
        ]
        said = [launcher.communicate(timeout=120) for launcher in launchers]
    assert [launcher.returncode for launcher in launchers] == [0, 0], said
    check(tmp_path / "said", "shm+ring", rounding, is_compressed=compression != "none")
    log = (tmp_path / first.name / "logs" / "worker-0.0.log").read_text()
    assert "workers of a host share memory, and 2 of them send" in log


def check(out: Path, collectives: str, rounding: float, *, is_compressed: bool) -> None:
    for worker in range(WORKERS):
        said = json.loads(Path(f"{out}.{worker}").read_text())
        assert said["collectives"] == collectives
        assert said["same"] == [True] * 14
        assert said["off"] <= WORKERS * rounding
        assert not is_compressed or said["off"] > 0
