"""A config file that is edited during a run: every worker, restarted ones too, trains what its launcher read."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from tests.helpers.cli_process import ROOT, begun
from tests.helpers.waiting import until
from tfdist.config import load_config
from tfdist.rundir import RunDir, WorkerState

EPOCHS, EDITED = 30, 3
CONFIG = """
name: edited
seed: 7
model: {{build: tfdist.models.mlp, args: {{inputs: [64], hidden: [8], classes: 10}}}}
compile: {{optimizer: {{name: sgd, learning_rate: {rate}}}, loss: sparse_categorical_crossentropy}}
data:
  batch_size: 8
  train: {{format: npz, path: {data}, split: test}}
fit: {{epochs: {epochs}}}
checkpoint: {{every_steps: 5}}
"""


def write(file: Path, epochs: int, rate: float) -> None:
    file.write_text(CONFIG.format(epochs=epochs, rate=rate, data=ROOT / "examples" / "data" / "digits.npz"))


def training_pid(run: RunDir, index: int) -> int:
    """The process of a worker that has made steps; 0 when there is none yet."""
    state = WorkerState.read(run.state_file(index))
    return state.pid if state is not None and state.step > 10 else 0


@pytest.mark.slow
@pytest.mark.bound(180)
def test_a_restart_trains_what_the_launcher_read(tmp_path: Path) -> None:
    file, run = tmp_path / "edited.yaml", RunDir(tmp_path / "run")
    write(file, EPOCHS, 0.01)
    with begun("train", file, "--max-restarts", 1, "--run-dir", run.path) as launcher:
        pid = until(lambda: training_pid(run, 0))
        write(file, EDITED, 0.5)
        os.kill(pid, signal.SIGKILL)
        assert launcher.wait(100) == 0
    assert run.log_file(0, 1).exists()  # it was restarted
    assert len(json.loads(run.history_file.read_text())["loss"]) == EPOCHS
    written = load_config(run.config_file)
    assert (written.fit.epochs, written.compile.optimizer["learning_rate"]) == (EPOCHS, 0.01)
