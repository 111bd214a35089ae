"""By which kernels a run computes: what it says, what stands in its directory, and what a resume with others says."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers.cli_process import ROOT, tfdist
from tfdist.config import load_config

_NAN = """
import keras, numpy as np
keras.utils.set_random_seed(7)
x = np.random.default_rng(0).random((32, 8), "float32")
x[20, 2] = np.nan
model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(5, "relu"), keras.layers.Dense(1)])
model.compile("adam", "mse")
stop = keras.callbacks.TerminateOnNaN()
print(model.fit(x, np.ones((32, 1)), batch_size=16, epochs=2, shuffle=False, verbose=0, callbacks=[stop]).history)
"""


@pytest.mark.parametrize("kernels", ["onednn", pytest.param("tensorflow", marks=pytest.mark.slow)])
def test_a_sample_that_is_no_number_ends_in_a_loss_that_is_none(tmp_path: Path, kernels: str) -> None:
    script = tmp_path / "nan.py"
    script.write_text(_NAN)
    options = ("--logical-devices", 2, "--kernels", kernels, "--run-dir", tmp_path / "run")
    # Workers that begin warm fuse nothing.
    done = tfdist("train", *options, script, are_warm=False)
    assert done.returncode == 0, done.stderr
    assert "{'loss': [nan]}" in done.stdout


@pytest.mark.slow
@pytest.mark.bound(100)
def test_a_run_that_resumes_with_other_kernels(tmp_path: Path) -> None:
    begin = ("train", ROOT / "configs" / "digits.yaml", "--run-dir", tmp_path / "run", "--resume", "auto")
    first = tfdist(*begin, "--kernels", "tensorflow", "--set", "fit.epochs=1")
    assert first.returncode == 0, first.stderr
    assert "without oneDNN" in first.stdout.splitlines()[0]
    assert load_config(tmp_path / "run" / "config.yaml").kernels == "tensorflow"
    second = tfdist(*begin, "--kernels", "onednn", "--set", "fit.epochs=2")
    assert second.returncode == 0, second.stderr
    assert "(oneDNN)" in second.stdout.splitlines()[0]
    assert "resume with --kernels tensorflow" in second.stderr
    assert load_config(tmp_path / "run" / "config.yaml").kernels == "onednn"
