"""Callbacks, weights of classes and rare validations in a run from a config: on two devices, and killed and resumed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.helpers.cli_process import ROOT, tfdist
from tfdist.rundir import RunDir

CONFIG = """\
seed: 7
model: {{build: tfdist.models.mlp, args: {{inputs: [64], hidden: [32], classes: 10}}}}
compile:
  optimizer: {{name: adam, learning_rate: 0.01, gradient_accumulation_steps: 2, clipnorm: 1}}
  loss: sparse_categorical_crossentropy
  metrics: [accuracy]
  weighted_metrics: [accuracy]
data:
  batch_size: 100
  train: {{format: npz, path: {data}, split: train, shuffle: true}}
  validation: {{format: npz, path: {data}, split: test}}
fit:
  epochs: 8
  validation_freq: 2
  class_weight: {{0: 2.0, 3: 0.5}}
  callbacks:
  - {{name: early_stopping, patience: 1, min_delta: 0.05, restore_best_weights: true}}
  - {{name: reduce_lr_on_plateau, monitor: loss, patience: 0, factor: 0.5, min_delta: 0.2}}
"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "digits.yaml"
    path.write_text(CONFIG.format(data=ROOT / "examples" / "data" / "digits.npz"))
    return path


@pytest.mark.slow
def test_two_devices_do_what_one_does_and_a_finished_run_says_that_it_was_stopped(config: Path, tmp_path: Path) -> None:
    histories = []
    for devices in (1, 2):
        run = RunDir(tmp_path / f"run{devices}")
        done = tfdist("train", config, "--logical-devices", devices, "--run-dir", run.path)
        assert done.returncode == 0, done.stderr
        assert "digits: done, stopped by a callback after 6 of 8 epochs of 1,437 samples" in done.stdout
        assert "best     epoch 6, val_loss" in done.stdout
        histories.append(json.loads(run.history_file.read_text()))
    one, two = histories
    assert one["learning_rate"][0] > one["learning_rate"][-1]
    assert (len(one["loss"]), len(one["val_loss"])) == (6, 3)
    assert one.keys() == two.keys()
    for name, values in one.items():
        assert two[name] == pytest.approx(values, rel=1e-4, abs=1e-3), name
    again = tfdist("train", config, "--run-dir", run.path, "--resume", "auto")
    assert again.returncode == 0, again.stderr
    assert "digits: was done before; a callback had stopped it after 6 of 8 epochs." in again.stdout + again.stderr


@pytest.mark.slow
def test_a_run_that_was_killed_has_the_states_of_its_callbacks(config: Path) -> None:
    done = tfdist("verify", "--kill", "--kills", "2", config, timeout=400)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "killed 2 times, the same as untouched" in done.stdout
