"""Optimizers whose state is in host memory or on disk have the same numbers, to the bit, and the same files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.cli_process import UNCHECKED, tfdist
from tests.helpers.marks import slow
from tests.helpers.resumable_model import write_config
from tests.workers import test_resume
from tfdist.rundir import RunDir

SCRIPT = Path(__file__).parent / "scripts" / "offloaded_training.py"
TENSORS = {"adam": 6, "sgd": 2, "accumulation": 4, "scaled": 2}
"""What is on disk of two kernels: Adam has two moments and an average of each."""


def train(folder: Path, workers: int, mode: str, offload: str, given: str = "") -> list[dict[str, Any]]:
    """What each worker says."""
    files, run_dir = folder / f"files-{offload}", folder / f"run-{offload}"
    files.mkdir(exist_ok=True)
    options = ("--nproc", workers, "--shard", mode, "--offload", offload, "--run-dir", run_dir)
    done = tfdist("train", *UNCHECKED, *options, SCRIPT, files, run_dir, *([given] if given else []), timeout=200)
    assert done.returncode == 0, done.stdout + done.stderr
    logs = [(run_dir / "logs" / f"worker-{index}.0.log").read_text() for index in range(workers)]
    return [json.loads(log.strip().splitlines()[-1]) for log in logs]


@pytest.mark.bound(500)
@pytest.mark.parametrize(
    ("workers", "mode", "offload"),
    [
        slow(2, "zero2", "optimizer:disk"),
        slow(1, "none", "optimizer"),
        slow(1, "none", "optimizer:disk"),
        slow(2, "zero1", "optimizer"),
        slow(2, "zero3", "optimizer"),
        slow(2, "zero3", "optimizer:disk"),
        slow(3, "zero2", "optimizer:disk"),
    ],
)
def test_numbers_and_files_are_those_without_it(tmp_path: Path, workers: int, mode: str, offload: str) -> None:
    plain = train(tmp_path, workers, mode, "none")
    # It goes on from what the other has saved.
    kept = train(tmp_path, workers, mode, offload, str(tmp_path / "files-none" / "model.keras"))
    for one, other in zip(plain, kept, strict=True):
        assert one.pop("named files") == other.pop("named files")  # the file on disk has no name
        held = {name: other[name].pop("on disk") for name in TENSORS}
        assert held == (TENSORS if offload == "optimizer:disk" else dict.fromkeys(TENSORS, 0))
        assert all(one[name].pop("on disk") == 0 for name in TENSORS)
        one["whole"].pop("on disk"), other["whole"].pop("on disk")
        assert one == other


@pytest.mark.slow
@pytest.mark.bound(600)
def test_a_killed_run_goes_on_to_the_bit_from_state_on_disk(tmp_path: Path) -> None:
    model = {"build": "tests.helpers.resumable_model.model", "args": {"cut": True}}
    config, whole, killed = write_config(tmp_path, seed=3, model=model), RunDir(tmp_path / "w"), RunDir(tmp_path / "k")
    options = ("--nproc", "2", "--shard", "zero2")
    assert test_resume.train(config, whole, *options).returncode == 0
    on_disk = (*options, "--offload", "optimizer:disk")
    last = test_resume.train_and_kill(config, killed, 1, 30, *on_disk)
    resumed = test_resume.train(config, killed, *on_disk, "--resume", "must")
    assert resumed.returncode == 0 and f"resumes after step {last}" in resumed.stdout
    test_resume.same(test_resume.end_of(whole), test_resume.end_of(killed))
