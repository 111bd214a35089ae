"""A run directory that somebody removes while the run goes on."""

from __future__ import annotations

import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from tests.helpers.cli_process import tfdist
from tests.helpers.waiting import until
from tfdist.rundir import RunDir

_CONFIG = """
name: tiny
model: {build: tfdist.models.mlp, args: {inputs: [8], hidden: [8], classes: 2}}
compile: {optimizer: sgd, loss: sparse_categorical_crossentropy}
data: {batch_size: 2, train: {format: npz, path: data.npz, split: train}}
fit: {epochs: 20}
"""


@pytest.mark.slow
def test_a_run_makes_it_again_and_saves_what_it_trained(tmp_path: Path) -> None:
    np.savez(tmp_path / "data.npz", x_train=np.ones((64, 8), "float32"), y_train=np.zeros(64, "int64"))
    (tmp_path / "config.yaml").write_text(_CONFIG)
    run = RunDir(tmp_path / "run")
    with ThreadPoolExecutor(1) as pool:
        training = pool.submit(tfdist, "train", tmp_path / "config.yaml", "--run-dir", run.path, timeout=100)
        until(lambda: run.metrics_file.exists() or training.done())
        os.rename(run.path, tmp_path / "removed")
        done = training.result()
    assert done.returncode == 0, done.stderr
    said = done.stderr
    assert f"The run directory {run} was removed or renamed while the run goes on. It is made again" in said
    assert "Traceback" not in said
    assert len(json.loads(run.history_file.read_text())["loss"]) == 20
    assert run.model_file.exists() and run.done_file.exists() and run.config_file.exists()
    assert list(run.events_dir.rglob("events.out.tfevents.*"))
