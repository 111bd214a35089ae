"""Checkpoints in a bucket, through TensorFlow's own client of Google Cloud Storage: a kill, and going on after it."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import keras
import pytest

from tests.helpers.bucket import Bucket, bucket
from tests.helpers.cli_process import begun, tfdist
from tests.helpers.resumable_model import STEPS, write_config
from tests.helpers.waiting import until
from tfdist.rundir import RunDir, WorkerState

SECONDS = 100
FOLDER = "gs://tests/run"
OPTIONS = ("--set", "fit.epochs=2", "--set", "checkpoint.every_steps=20")


def weights(run: RunDir) -> list[bytes]:
    return [weight.tobytes() for weight in keras.models.load_model(run.model_file).get_weights()]


def whole(storage: Bucket) -> set[str]:
    """The checkpoints that have their marker."""
    with storage.lock:
        return {Path(name).parts[1] for name in storage.objects if name.endswith("/checkpoint.json")}


@pytest.mark.slow
@pytest.mark.bound(400)
@pytest.mark.parametrize("sharing", [(), ("--nproc", "2", "--shard", "zero2")])
def test_a_run_whose_checkpoints_are_in_a_bucket_goes_on_after_a_kill(sharing: tuple[str, ...], tmp_path: Path) -> None:
    """Those that workers share are in parts, which the chief stores for them."""
    config = write_config(tmp_path, seed=3)
    expected, run = RunDir(tmp_path / "expected"), RunDir(tmp_path / "run")
    done = tfdist("train", config, *OPTIONS, *sharing, "--run-dir", expected.path, timeout=SECONDS)
    assert done.returncode == 0, done.stderr
    with bucket(tmp_path) as storage:
        options = (*OPTIONS, "--set", f"checkpoint.directory={FOLDER}", *sharing)
        start = ("train", config, *options, "--run-dir", run.path)
        with begun(*start, environ=storage.environment) as process:
            until(lambda: bool(whole(storage)), SECONDS)
            with storage.lock:  # the run cannot end meanwhile: its last checkpoint would be stored first
                state = WorkerState.read(run.state_file(0))
                assert state is not None
                os.kill(state.pid, signal.SIGKILL)
            assert process.wait(SECONDS) == 4
        left = max(whole(storage))
        again = tfdist(*start, "--resume", "must", timeout=SECONDS, environ=storage.environment)
        assert again.returncode == 0, again.stderr
        assert f"from {FOLDER}/{left}" in again.stdout
        assert weights(run) == weights(expected)
        assert len(whole(storage)) == 2  # as the config says
        with storage.lock:
            assert any(name.endswith("/weights.worker-1-of-2") for name in storage.objects) == bool(sharing)

        other = tfdist(*start[:-1], tmp_path / "other", timeout=SECONDS, environ=storage.environment)
        assert other.returncode == 2
        assert f"There are checkpoints of another run in {FOLDER}. Expected none" in other.stderr
        assert len(whole(storage)) == 2


@pytest.mark.slow
@pytest.mark.bound(200)
def test_a_bucket_that_refuses_for_a_while_ends_no_training(tmp_path: Path) -> None:
    config, run = write_config(tmp_path, seed=3), RunDir(tmp_path / "run")
    with bucket(tmp_path) as storage:
        storage.refuses = "step-00000040"
        start = ("train", config, *OPTIONS, "--set", "fit.epochs=3", "--set", f"checkpoint.directory={FOLDER}")
        done = tfdist(*start, "--run-dir", run.path, timeout=SECONDS, environ=storage.environment)
    assert done.returncode == 0, done.stderr
    assert "No checkpoint at step 40. The training continues without it." in run.log_file(0, 0).read_text()
    assert any(storage.refuses in request for request in storage.requests)
    assert sorted(name[:13] for name in whole(storage)) == ["step-00000060", f"step-{3 * STEPS:08d}"]


def test_a_bucket_out_of_reach_is_told(tmp_path: Path) -> None:
    """And no run begins anew beside the one that may lie there."""
    config = write_config(tmp_path, seed=3)
    with bucket(tmp_path) as storage:
        storage.answers_only = 403
        start = ("train", config, *OPTIONS, "--set", f"checkpoint.directory={FOLDER}", "--run-dir", tmp_path / "run")
        done = tfdist(*start, "--resume", "auto", timeout=SECONDS, environ=storage.environment)
    assert done.returncode == 2
    assert f"The checkpoints in {FOLDER} are out of reach: " in done.stderr
    assert "Check checkpoint.directory, its permissions, the network and the credentials." in done.stderr
    assert not storage.objects
