"""A run from a config that trains for int8: two workers have the numbers of one."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tests.helpers import resumable_model
from tests.helpers.attentive_model import CLASSES, LENGTH, WORDS
from tests.helpers.cli_process import tfdist
from tests.workers import test_resume
from tfdist.rundir import RunDir

CONFIG = """\
seed: 7
model: {{build: tests.helpers.attentive_model.model}}
compile: {{optimizer: {{name: sgd, learning_rate: 0.2}}, loss: sparse_categorical_crossentropy}}
data:
  batch_size: 20
  train: {{format: npz, path: {data}, split: train, shuffle: true}}
fit: {{epochs: 2, callbacks: [quantization_aware]}}
"""
SAMPLES = 45


@pytest.mark.slow
def test_two_workers_train_attention_and_embeddings_as_one_does(tmp_path: Path) -> None:
    x = np.random.default_rng(0).integers(0, WORDS, (SAMPLES, LENGTH)).astype("int32")
    np.savez(tmp_path / "words.npz", x_train=x, y_train=x[:, 0] % CLASSES)
    config = tmp_path / "words.yaml"
    config.write_text(CONFIG.format(data=tmp_path / "words.npz"))
    losses = []
    for number, way in enumerate(([], ["--nproc", 2], ["--set", "fit.callbacks=[]"])):
        run = RunDir(tmp_path / f"run{number}")
        done = tfdist("train", config, *way, "--run-dir", run.path)
        assert done.returncode == 0, done.stderr
        losses.append(json.loads(run.history_file.read_text())["loss"])
    one, two, without = losses
    assert two == pytest.approx(one, rel=1e-9)
    assert without != pytest.approx(one, rel=1e-5)


@pytest.mark.slow
@pytest.mark.bound(600)
def test_a_killed_run_ends_as_the_one_that_was_not(tmp_path: Path) -> None:
    fit = {"epochs": resumable_model.EPOCHS, "callbacks": ["quantization_aware"]}
    config = resumable_model.write_config(tmp_path, seed=3, fit=fit)
    whole, killed = RunDir(tmp_path / "whole"), RunDir(tmp_path / "killed")
    assert test_resume.train(config, whole, "--nproc", "2").returncode == 0
    last = test_resume.train_and_kill(config, killed, 1, 30, "--nproc", "2")
    resumed = test_resume.train(config, killed, "--nproc", "2", "--resume", "must")
    assert resumed.returncode == 0 and f"resumes after step {last}" in resumed.stdout
    test_resume.same(test_resume.end_of(whole), test_resume.end_of(killed))
