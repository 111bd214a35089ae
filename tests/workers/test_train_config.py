"""The main job, on one device and on several in every way: one history."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from tests.helpers.cli_process import ROOT, tfdist
from tests.helpers.marks import slow
from tfdist.config import load_config
from tfdist.rundir import RunDir, State, WorkerState

CONFIG = ROOT / "configs" / "digits.yaml"
VALIDATION_SAMPLES, TRAINING_SAMPLES = 360, 1437
WAYS = {"logical": ["--logical-devices", "3"], "nproc": ["--nproc", "2"], "workers": ["--workers"]}


def train(folder: Path, *options: str, environ: dict[str, str] | None = None) -> tuple[RunDir, str]:
    run = RunDir(folder / "run")
    done = tfdist("train", CONFIG, *options, "--run-dir", run.path, timeout=100, environ=environ)
    assert done.returncode == 0, done.stderr
    return run, done.stdout


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> tuple[RunDir, str]:
    return train(tmp_path_factory.mktemp("one"))


def history(run: RunDir) -> dict[str, Any]:
    return json.loads(run.history_file.read_text())


@pytest.fixture
def proxy() -> Iterator[dict[str, str]]:
    """Names a proxy in the environment that answers nobody; none of the workers may connect to it."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"http://127.0.0.1:{server.getsockname()[1]}"
        yield {"http_proxy": address, "https_proxy": address}
        server.setblocking(False)
        with pytest.raises(BlockingIOError):
            server.accept()


@pytest.mark.parametrize("way", [slow("logical"), slow("nproc"), "workers"])
def test_history_of_one_device(
    way: str, one: tuple[RunDir, str], proxy: dict[str, str], two_ports: tuple[int, int], tmp_path: Path
) -> None:
    workers = [",".join(f"127.0.0.1:{port}" for port in two_ports)] if way == "workers" else []
    run, _ = train(tmp_path, *WAYS[way], *workers, environ=proxy)
    expected, received = history(one[0]), history(run)
    assert received.keys() == expected.keys()
    for name in ("loss", "val_loss"):
        assert received[name] == pytest.approx(expected[name], rel=1e-4)
    assert received["accuracy"] == pytest.approx(expected["accuracy"], abs=1.01 / TRAINING_SAMPLES)
    assert received["val_accuracy"] == pytest.approx(expected["val_accuracy"], abs=1.01 / VALIDATION_SAMPLES)


@pytest.mark.slow
def test_epochs_of_a_number_of_steps(tmp_path: Path) -> None:
    """Twelve steps take every sample once: the second epoch begins in the middle of a pass, and ends in another."""
    options = ["--set", "fit.steps_per_epoch=20", "--set", "fit.epochs=2"]
    expected, said = train(tmp_path / "one", *options)
    received, _ = train(tmp_path / "two", *options, "--nproc", "2")
    assert "done, 2 epochs of 20 steps" in said
    assert history(received).keys() == history(expected).keys()
    for name, values in history(expected).items():
        assert len(values) == 2
        assert history(received)[name] == pytest.approx(values, rel=1e-4)



def test_learns(one: tuple[RunDir, str]) -> None:
    assert history(one[0])["val_accuracy"][-1] >= 0.95


def test_summary(one: tuple[RunDir, str]) -> None:
    run, printed = one
    lines = printed.splitlines()
    assert [line for line in lines if line.startswith("epoch 10/10")]
    done, *summary = lines[-8:]
    assert done == "digits: done, 10 epochs of 1,437 samples"
    assert [line.split()[0] for line in summary] == ["on", "time", "speed", "metrics", "best", "model", "files"]
    values = history(run)["val_loss"]
    assert f"  best     epoch {int(np.argmin(values)) + 1}, val_loss {min(values):.4f}" in summary
    assert summary[-1].endswith(f" in {run}") and str(run.model_file) in summary[-2]


def test_a_bar_is_on_the_screen_and_in_no_log(tmp_path: Path) -> None:
    options = ["--progress", "bar", "--nproc", 2, "--set", "fit.epochs=2", "--run-dir", tmp_path / "run"]
    done = tfdist("train", CONFIG, *options, timeout=100)
    assert done.returncode == 0, done.stderr
    assert "\x1b[2K" in done.stderr and f"{-(-TRAINING_SAMPLES // 128)}/12" in done.stderr
    assert "  loss 2." in done.stderr  # after the first batch
    # The lines of the epochs stay; the bar is gone in the end.
    assert [line.partition("  ")[0] for line in done.stdout.splitlines() if "epoch" in line][:2] == [
        "epoch 1/2",
        "epoch 2/2",
    ]
    assert done.stderr.endswith("\x1b[2K")
    log = RunDir(tmp_path / "run").log_file(0, 0).read_text()
    assert "epoch 2/2" in log and "\x1b" not in log and "loss 2." not in log


def test_run_directory(one: tuple[RunDir, str]) -> None:
    run, _ = one
    config = load_config(run.config_file)
    assert (config.name, config.seed, config.fit.epochs) == ("digits", 7, 10)
    assert "keras:" in run.config_file.read_text()
    assert len(run.metrics_file.read_text().splitlines()) == 10
    state = WorkerState.read(run.state_file(0))
    assert state is not None and state.state is State.FINISHED
    assert (state.step, state.epoch, state.attempt) == (10 * -(-TRAINING_SAMPLES // 128), 9, 0)
    assert run.log_file(0, 0).stat().st_size > 0
    assert not run.failure_file.exists()


def test_the_model_loads_in_plain_keras(one: tuple[RunDir, str]) -> None:
    run, _ = one
    model = keras.models.load_model(run.model_file)
    with np.load(ROOT / "examples" / "data" / "digits.npz") as digits:
        _, accuracy = model.evaluate(digits["x_test"], digits["y_test"], verbose=0)
    assert accuracy == pytest.approx(history(run)["val_accuracy"][-1], abs=1e-6)


def test_the_config_of_a_run_runs_again(one: tuple[RunDir, str], tmp_path: Path) -> None:
    again = tmp_path / "again"
    done = tfdist("train", one[0].config_file, "--set", "fit.epochs=2", "--run-dir", again, timeout=100)
    assert done.returncode == 0, done.stderr
    assert history(RunDir(again))["loss"] == pytest.approx(history(one[0])["loss"][:2], rel=1e-5)


@pytest.mark.slow  # as tests/devices/test_sample_shapes.py has it, with the exit code of its error
def test_a_model_that_the_data_does_not_fit_is_one_clear_error(tmp_path: Path) -> None:
    done = tfdist("train", CONFIG, "--set", "model.args.inputs=[32]", "--run-dir", tmp_path / "run")
    assert done.returncode == 5
    assert "data.train: the samples do not fit the model: " in done.stderr
    assert "uint8 (None, 64)" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "run" / "model.keras").exists()
