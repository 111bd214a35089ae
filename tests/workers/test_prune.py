"""`tfdist prune`: on several workers and killed as on one device and untouched; what is measured, and a budget."""

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

from tests.helpers.cli_process import ROOT, begun, tfdist
from tests.helpers.waiting import until

CONFIG = """
seed: 5
model: {build: tfdist.models.mlp, args: {inputs: [6], hidden: [16, 8], classes: 3}}
compile: {optimizer: {name: adam, learning_rate: 0.01}, loss: sparse_categorical_crossentropy, metrics: [accuracy]}
data:
  batch_size: 16
  train: {format: npz, path: samples.npz, split: train, shuffle: true}
  validation: {format: npz, path: samples.npz, split: test}
fit: {epochs: 3, callbacks: [{name: early_stopping, monitor: loss, patience: 1}]}
checkpoint: {every_steps: 1}
"""
ASKED = ["--sparsity", 0.7, "--epochs", 4, "--json"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Has a trained run, `run`, and what one device makes of it, `one.keras` with `one.json`."""
    folder = tmp_path_factory.mktemp("prune")
    random = np.random.default_rng(0)
    x = random.normal(size=[130, 6]).astype(np.float32)
    y = np.argmax(x @ random.normal(size=[6, 3]), axis=1)
    np.savez(folder / "samples.npz", x_train=x[:65], y_train=y[:65], x_test=x[65:], y_test=y[65:])
    (folder / "small.yaml").write_text(CONFIG)
    trained = tfdist("train", "small.yaml", "--run-dir", "run", cwd=folder, timeout=120)
    assert trained.returncode == 0, trained.stderr
    done = tfdist("prune", "run", *ASKED, "-o", "one.keras", cwd=folder, timeout=180)
    assert done.returncode == 0, done.stderr
    (folder / "one.json").write_text(done.stdout)
    return folder


def kernels(file: Path) -> list[np.ndarray]:
    """The weights of a file, by a process in which tfdist has repaired nothing."""
    code = (
        "import sys, keras, numpy as np; model = keras.models.load_model(sys.argv[1]);"
        "np.savez(sys.argv[2], *model.get_weights())"
    )
    weights = file.with_suffix(".npz")
    subprocess.run([sys.executable, "-c", code, file, weights], check=True, timeout=120, capture_output=True)
    with np.load(weights) as arrays:
        return [arrays[name] for name in arrays.files]


def test_what_is_measured_is_in_the_file(folder: Path) -> None:
    result: dict[str, Any] = json.loads((folder / "one.json").read_text())
    left = {layer["name"]: (layer["weights"], layer["left"]) for layer in result["layers"]}
    assert left == {"dense": (96, 29), "dense_1": (128, 38), "dense_2": (24, 7)}
    assert [np.count_nonzero(each) for each in kernels(folder / "one.keras") if each.ndim == 2] == [29, 38, 7]
    assert result["sparsity"] == pytest.approx(1 - (29 + 38 + 7) / 248)
    history = json.loads((folder / "one.run" / "history.json").read_text())
    assert len(history["loss"]) == 4, "early stopping takes no part"
    assert history["sparsity"][-1] == pytest.approx(result["sparsity"])
    metrics = result["after"]["metrics"]
    assert metrics["loss"] == pytest.approx(history["val_loss"][-1], rel=1e-5)
    trained = json.loads((folder / "run" / "history.json").read_text())
    assert result["before"]["metrics"]["loss"] == pytest.approx(trained["val_loss"][-1], rel=1e-5)
    assert json.loads((folder / "one.run" / "pruning.json").read_text()) == result


@pytest.mark.slow
def test_killed_on_two_workers_as_untouched_on_one_device(folder: Path) -> None:
    command = ["prune", folder / "run", *ASKED, "-o", folder / "two.keras", "--nproc", 2]
    checkpoints = folder / "two.run" / "checkpoints"
    with begun(*command) as process:
        until(lambda: len(list(checkpoints.glob("step-*/checkpoint.json"))) > 2, 120)
        os.killpg(process.pid, signal.SIGKILL)
    assert not (folder / "two.keras").exists()
    done = tfdist(*command, cwd=ROOT, timeout=180)
    assert done.returncode == 0, done.stderr
    assert (folder / "two.run" / "resumes.jsonl").exists()
    for mine, other in zip(kernels(folder / "two.keras"), kernels(folder / "one.keras"), strict=True):
        np.testing.assert_array_equal(mine == 0, other == 0)
        np.testing.assert_allclose(mine, other, rtol=1e-3, atol=1e-5)
    refused = tfdist(*command, cwd=ROOT)
    assert refused.returncode == 2 and "two.keras exists already" in refused.stderr


@pytest.mark.slow
def test_a_budget_that_is_exceeded_and_another_one_without_training_again(folder: Path) -> None:
    (folder / "one.keras").unlink()
    trained = (folder / "one.run" / "model.keras").stat().st_mtime_ns
    command = ["prune", "run", *ASKED, "-o", "one.keras", "--metric", "loss"]
    done = tfdist(*command, "--max-drop", 1e-9, cwd=folder, timeout=120)
    assert done.returncode == 6, done.stderr
    result = json.loads(done.stdout)
    assert result["drop"] > 0 and not result["held"] and result["output"] is None
    assert not (folder / "one.keras").exists()
    done = tfdist(*command, "--max-drop", "10000%", cwd=folder, timeout=120)
    assert done.returncode == 0, done.stderr
    assert (folder / "one.keras").exists()
    assert (folder / "one.run" / "model.keras").stat().st_mtime_ns == trained
    (folder / "one.keras").unlink()
    refused = tfdist("prune", "run", "--sparsity", 0.5, "-o", "one.keras", cwd=folder)
    assert refused.returncode == 2
    assert "one.run has another pruning: fit.callbacks, fit.epochs differ" in refused.stderr


@pytest.mark.slow
def test_a_file_with_the_config_of_its_data(folder: Path) -> None:
    options = ["run/model.keras", "--structure", "2:4", "--skip", "dense", "-o", "file.keras", "--json"]
    refused = tfdist("prune", *options, cwd=folder)
    assert refused.returncode == 2 and "Expected --config CONFIG.yaml" in refused.stderr
    done = tfdist("prune", *options, "--config", "small.yaml", "--set", "fit.epochs=2", cwd=folder, timeout=120)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert [layer["left"] for layer in result["layers"]][:2] == [96, 64]
    before = json.loads((folder / "one.json").read_text())["before"]["metrics"]
    assert result["before"]["metrics"] == pytest.approx(before, rel=1e-5)


@pytest.mark.slow
def test_channels_that_are_really_gone(folder: Path) -> None:
    options = ["--structure", "channels", "--sparsity", 0.5, "--epochs", 2, "-o", "channels.keras", "--json"]
    done = tfdist("prune", "run", *options, "--nproc", 2, cwd=folder, timeout=180)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert [layer["shape_after"] for layer in result["layers"]] == [[6, 8], [8, 4], [4, 3]]
    assert [each.shape for each in kernels(folder / "channels.keras")] == [(6, 8), (8,), (8, 4), (4,), (4, 3), (3,)]
    # What is measured is the smaller model; the run has measured the one with zeros.
    history = json.loads((folder / "channels.run" / "history.json").read_text())
    assert result["after"]["metrics"]["loss"] == pytest.approx(history["val_loss"][-1], rel=1e-5)
