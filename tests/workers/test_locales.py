"""A locale that does not know the letters of a path."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.helpers.cli_process import tfdist
from tfdist.rundir import RunDir

_CONFIG = """
name: tiny
model: {{build: tfdist.models.mlp, args: {{inputs: [8], hidden: [8], classes: 2}}}}
compile: {{optimizer: sgd, loss: sparse_categorical_crossentropy}}
data: {{batch_size: 32, train: {{format: npz, path: data.npz, split: train}}}}
fit: {{epochs: {epochs}}}
"""
_ASCII = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}


@pytest.mark.slow
@pytest.mark.bound(150)
def test_a_run_directory_with_letters_beyond_ascii(tmp_path: Path) -> None:
    """TensorFlow writes the events there, and reads the checkpoint for the other worker."""
    folder = tmp_path / "ü日本"
    folder.mkdir()
    np.savez(folder / "data.npz", x_train=np.ones((64, 8), "float32"), y_train=np.zeros(64, "int64"))
    run = RunDir(folder / "run")
    for epochs, options in [(1, []), (2, ["--nproc", "2", "--resume", "must"])]:
        (folder / "config.yaml").write_text(_CONFIG.format(epochs=epochs))
        done = tfdist("train", folder / "config.yaml", "--run-dir", run.path, *options, environ=_ASCII, timeout=100)
        assert done.returncode == 0, done.stderr
        assert list(run.events_dir.rglob("events.out.tfevents.*"))
    assert run.model_file.exists()
