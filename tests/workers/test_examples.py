"""Every example runs as its own text says."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.cli_process import tfdist
from tests.helpers.marks import slow
from tests.helpers.waiting import PATIENCE

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
BOUND = 60  # seconds, on an idle machine


def run(*command: str | Path, cwd: Path = ROOT) -> str:
    """Runs a Python command, from the repository's root where no other place is said, and returns what it printed."""
    line = [sys.executable, *map(str, command)]
    done = subprocess.run(line, cwd=cwd, capture_output=True, text=True, timeout=BOUND * PATIENCE, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def train(run_dir: Path, *command: str | Path) -> str:
    done = tfdist("train", "--run-dir", run_dir, *command, timeout=BOUND)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def last_result(printed: str) -> tuple[float, float]:
    """The loss and accuracy that a script prints at its end."""
    found = re.search(r"test loss (\d+\.\d+), test accuracy (\d\.\d+)", printed)
    assert found, printed
    return float(found[1]), float(found[2])


def test_keras_script(tmp_path: Path) -> None:
    alone = last_result(run(EXAMPLES / "keras_script.py", "--epochs", "4"))
    two = last_result(train(tmp_path / "run", "--nproc", "2", EXAMPLES / "keras_script.py", "--epochs", "4"))
    assert alone[1] > 0.85
    assert two[0] == pytest.approx(alone[0], rel=1e-4)
    assert two[1] == pytest.approx(alone[1], abs=1.1 / 360)  # printed with four digits


@pytest.mark.slow
@pytest.mark.parametrize("options", [[], ["--nproc", "2"], ["--logical-devices", "3"]])
def test_strategy_script(tmp_path: Path, options: list[str]) -> None:
    printed = train(tmp_path / "run", *options, EXAMPLES / "strategy_script.py", "--epochs", "4")
    assert last_result(printed)[1] > 0.9


@pytest.mark.slow
def test_image_classifier(tmp_path: Path) -> None:
    shards = tmp_path / "shards"
    run(EXAMPLES / "image_classifier" / "make_shards.py", "--output", shards)
    assert len(list(shards.glob("*-of-00004.tfrecord"))) == 8
    config = tmp_path / "config.yaml"
    config.write_text((EXAMPLES / "image_classifier" / "config.yaml").read_text())
    train(tmp_path / "run", "--nproc", "2", config)
    history = json.loads((tmp_path / "run" / "history.json").read_text())
    assert history["val_accuracy"][-1] > 0.95


@pytest.mark.slow
def test_text_classifier(tmp_path: Path) -> None:
    text = tmp_path / "reviews.txt"
    run(EXAMPLES / "text_classifier" / "make_reviews.py", "--lines", "20000", "--output", text)
    script = EXAMPLES / "text_classifier" / "train.py"
    printed = train(tmp_path / "run", "--nproc", "2", script, "--file", text, "--batch-size", "256")
    found = re.search(r"training accuracy (\d\.\d+)", printed)
    assert found, printed
    assert float(found[1]) > 0.85


@pytest.mark.slow
def test_reviews_from_the_config_to_integers(tmp_path: Path) -> None:
    """As docs/deployment.md has it, on fewer reviews."""
    folder = tmp_path / "text_classifier"
    shutil.copytree(EXAMPLES / "text_classifier", folder)
    run("make_reviews.py", "--lines", "2000", cwd=folder)
    run("make_reviews.py", "--lines", "400", "--seed", "2", "--output", "others.txt", cwd=folder)
    run("-m", "tfdist", "train", "reviews.yaml", "--run-dir", "reviews", "--set", "fit.epochs=2", cwd=folder)
    options = ["--format", "litert-int8", "--calibration", "64", "--max-drop", "5%", "--json"]
    document = json.loads(run("-m", "tfdist", "export", "reviews", *options, cwd=folder))
    assert document["held"] and document["float_layers"] == []
    assert document["calibration"] == {"samples": 64, "key": "data.train"}
    # One byte a weight, and some kilobytes of what is not weights.
    size = (folder / "reviews-int8.tflite").stat().st_size
    assert size == document["bytes"] < document["weights_bytes"] / 4 + 8000


def test_logical_devices() -> None:
    printed = run(EXAMPLES / "logical_devices.py", "--devices", "3", "--epochs", "3")
    assert "largest relative difference of 3 validation losses" in printed


def test_lora_fine_tuning(tmp_path: Path) -> None:
    pytest.importorskip("keras_hub", reason="KerasHub is not installed; pip install keras-hub")
    options = [EXAMPLES / "lora_fine_tuning.py", "--epochs", "2"]

    def losses(printed: str) -> list[tuple[int, float]]:
        """How many weights each of the two trainings trains, and the loss after it."""
        found = re.findall(r"(\d+) trained weights: test loss (\d+\.\d+), test accuracy", printed)
        return [(int(weights), float(loss)) for weights, loss in found]

    alone = losses(run(*options))
    two = losses(train(tmp_path / "run", "--nproc", "2", *options))
    assert [weights for weights, _ in two] == [weights for weights, _ in alone]
    assert alone[1][0] < alone[0][0] / 10
    assert [loss for _, loss in two] == pytest.approx([loss for _, loss in alone], rel=1e-4)


@pytest.mark.parametrize("library", ["keras_tuner", slow("optuna")])
def test_searches_find_the_same_on_two_workers(tmp_path: Path, library: str) -> None:
    pytest.importorskip(library)
    script = EXAMPLES / "tuning" / f"{library.replace('_', '')}_search.py"

    def best(name: str, *command: str | Path) -> str:
        where = ["--directory", tmp_path / name] if library == "keras_tuner" else []
        printed = run(*command, script, "--trials", "2", "--epochs", "2", *where)
        return next(line for line in printed.splitlines() if line.startswith("best of 2: units "))

    alone = best("alone")
    assert best("two", "-m", "tfdist", "train", "--nproc", "2", "--run-dir", tmp_path / "run") == alone
