"""`tfdist export` as a user runs it: a model of a run, what differs, what exists, what is damaged."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import keras
import numpy as np
import pytest

from tests.helpers.cli_process import ROOT, tfdist

MAKE = """
import keras, sys
from tests.workers.lying_layer import Lying
keras.Sequential([keras.Input((64,)), keras.layers.Dense(10, activation="softmax")]).save(sys.argv[1] + "/model.keras")
import numpy as np
digits = np.load("examples/data/digits.npz")
trained = keras.Sequential([keras.Input((64,)), keras.layers.Dense(32, "relu"), keras.layers.Dense(10, "softmax")])
trained.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
trained.fit(digits["x_train"], digits["y_train"], epochs=5, verbose=0)
trained.save(sys.argv[1] + "/trained.keras")
keras.Sequential([keras.Input((64,)), Lying()]).save(sys.argv[1] + "/lying.keras")
"""
DATA = "{format: npz, path: %s, split: test}"
ENVIRON = {"PYTHONPATH": str(ROOT)}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("export")
    subprocess.run([sys.executable, "-c", MAKE, folder], check=True, timeout=120, cwd=ROOT, capture_output=True)
    (folder / "data.yaml").write_text(DATA % (ROOT / "examples" / "data" / "digits.npz"))
    return folder


def test_an_artefact_with_its_figures(made: Path) -> None:
    done = tfdist(
        "export", "model.keras", "--format", "savedmodel", "--data", "data.yaml", "--samples", 40, "--json",
        cwd=made, timeout=200,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    (output,) = document["outputs"]
    assert document["samples"] == 40 and output["same_labels"] == 40 and output["difference"] <= 1e-5
    assert document["output"] == "model-savedmodel" and (made / "model-savedmodel/1/saved_model.pb").exists()
    again = tfdist("export", "model.keras", "--format", "savedmodel", cwd=made)
    assert again.returncode == 2 and "Give --model-version 2" in again.stderr


def test_what_differs_ends_with_6_and_is_not_kept(made: Path) -> None:
    options = ["--import", "tests.workers.lying_layer", "-o", "lie"]
    done = tfdist("export", "lying.keras", "--format", "savedmodel", *options, cwd=made, timeout=200, environ=ENVIRON)
    assert done.returncode == 6, done.stderr
    assert "'output' differs most" in done.stderr and "Nothing was kept as lie" in done.stderr
    assert "of 0.0001" in done.stdout
    assert not [path.name for path in made.iterdir() if "lie" in path.name]


@pytest.mark.slow
def test_a_model_of_nan_is_not_taken_for_the_same(made: Path) -> None:
    model = keras.models.load_model(made / "trained.keras")
    model.layers[-1].bias.assign(np.full(10, np.nan))
    model.save(made / "nan.keras")
    done = tfdist("export", "nan.keras", "--format", "savedmodel", "-o", "of-nan", cwd=made, timeout=200)
    assert done.returncode == 6, done.stderr
    assert "whatever was written would pass, as the output" in done.stderr and "NaN or infinite in all" in done.stderr
    assert not (made / "of-nan").exists()
    options = ["--data", "data.yaml", "--batch-size", 60, "--max-drop", "1%", "-o", "small.keras"]
    done = tfdist("quantize", "nan.keras", *options, cwd=made, timeout=200)
    assert done.returncode == 6, done.stderr
    assert "No budget could be exceeded, and nothing was made." in done.stdout
    assert not (made / "small.keras").exists()


@pytest.mark.slow
def test_integers_that_cost_too_much_are_not_kept(made: Path) -> None:
    """Calibrated by samples of another scale, for which all of these are cut off."""
    with np.load(ROOT / "examples" / "data" / "digits.npz") as digits:
        np.savez(made / "dark.npz", x_test=digits["x_test"] / 100, y_test=digits["y_test"])
    (made / "dark.yaml").write_text(DATA % "dark.npz")
    options = ["--format", "litert-int8", "--data", "data.yaml", "-o", "small.tflite", "--metric", "loss", "--json"]
    done = tfdist("export", "trained.keras", *options, "--calibration-data", "dark.yaml", cwd=made, timeout=200)
    assert done.returncode == 6, done.stderr
    assert "worse than Keras's, beyond --max-drop 1%. Nothing was kept as small.tflite" in done.stderr
    assert "Choose --format litert-int16x8, which rounds less" in done.stderr
    assert not (made / "small.tflite").exists()
    done = tfdist("export", "trained.keras", *options, "--max-drop", "20%", cwd=made, timeout=200)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["held"] and document["calibration"] == {"samples": 512, "key": "data"}
    assert document["bytes"] == (made / "small.tflite").stat().st_size


def test_a_damaged_model_is_refused_at_once(made: Path) -> None:
    content = bytearray((made / "model.keras").read_bytes())
    content[len(content) // 2] ^= 0xFF
    (made / "damaged.keras").write_bytes(content)
    done = tfdist("export", "damaged.keras", "--format", "savedmodel", cwd=made)
    assert done.returncode == 5 and "damaged.keras is damaged" in done.stderr


@pytest.mark.slow
def test_samples_that_the_model_does_not_take(made: Path) -> None:
    np.savez(made / "narrow.npz", x_test=np.zeros([5, 3]), y_test=np.zeros(5))
    (made / "narrow.yaml").write_text(DATA % "narrow.npz")
    options = ["--format", "savedmodel", "--data", "narrow.yaml", "-o", "narrow"]
    done = tfdist("export", "model.keras", *options, cwd=made, timeout=200)
    assert done.returncode == 5, done.stderr
    assert "Expected input float32[None, 64]. Received: float32[5, 3]" in done.stderr
    assert not (made / "narrow").exists()
