"""`tfdist quantize` on several workers and devices, beside Keras on one device."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import keras
import numpy as np
import pytest

from tests.helpers.cli_process import ROOT, tfdist
from tests.helpers.marks import slow

SCRIPT = ROOT / "tests" / "workers" / "scripts" / "quantizing.py"
DATA = ["--data", "samples.yaml", "--batch-size", 61]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the model, its samples, and what one device makes of them."""
    folder = tmp_path_factory.mktemp("quantize")
    subprocess.run([sys.executable, SCRIPT, folder], check=True, timeout=120, cwd=ROOT, capture_output=True)
    return folder


@pytest.mark.parametrize("way", [["--nproc", 2], slow(["--logical-devices", 3]), slow(["--nproc", 3]), slow([])])
def test_numbers_of_one_device_and_a_file_that_keras_loads(way: list[object], made: Path) -> None:
    done = tfdist("quantize", "model.keras", *DATA, *way, "--overwrite", "--json", cwd=made, timeout=180)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    with np.load(made / "expected.npz") as expected:
        for moment in ("before", "after"):
            metrics = result[moment]["metrics"]
            np.testing.assert_allclose([metrics["loss"], metrics["accuracy"]], expected[moment], rtol=1e-6)
        # A process of its own, in which tfdist has repaired nothing.
        code = (
            "import sys, keras, numpy as np; x = np.load('samples.npz')['x_train'];"
            "np.save('loaded.npy', keras.models.load_model(sys.argv[1]).predict(x, verbose=0))"
        )
        load = [sys.executable, "-W", "error:Skipping", "-c", code, result["output"]]
        subprocess.run(load, check=True, timeout=120, cwd=made, capture_output=True)
        np.testing.assert_allclose(np.load(made / "loaded.npy"), expected["predicted"], rtol=1e-6)
    assert result["output"] == str(made / "model.int8.keras")
    assert [(layer["name"], layer["float_because"]) for layer in result["layers"]] == [
        ("conv", "not covered"),
        ("wide", None),
        ("head", None),
    ]
    assert result["after"]["bytes"] == (made / "model.int8.keras").stat().st_size


@pytest.mark.slow
def test_weights_that_samples_of_all_workers_choose(made: Path) -> None:
    weights = {}
    for way in ([], ["--nproc", 2]):
        options = ["--mode", "gptq", "--bits", 8, "--calibration", 50, "--calibration-data", "samples.yaml", "--json"]
        output = f"gptq{len(way)}.keras"
        done = tfdist("quantize", "model.keras", *DATA, *way, *options, "-o", output, cwd=made, timeout=180)
        assert done.returncode == 0, done.stderr
        result = json.loads(done.stdout)
        assert result["calibration"] == {"samples": 50, "key": "samples", "bits": 8, "group_size": 128}
        assert [layer["float_because"] for layer in result["layers"]] == ["not covered", None, None]
        weights[output] = keras.models.load_model(made / output, compile=False).get_weights()
    # The moments are equal up to rounding, by which a weight may fall on the other side of a half.
    for one, two in zip(*weights.values(), strict=True):
        assert np.mean(np.isclose(one, two, rtol=1e-5)) > 0.98 and np.allclose(one, two, rtol=1e-5, atol=1)


@pytest.mark.slow
def test_a_budget_that_cannot_be_held_leaves_what_was_there(made: Path) -> None:
    (made / "out.keras").write_bytes(b"earlier")
    options = ["--data", "perfect.yaml", "--mode", "int4", "-o", "out.keras", "--max-drop", "1e-6"]
    refused = tfdist("quantize", "perfect.keras", *options, cwd=made)
    assert refused.returncode == 2 and "out.keras exists already" in refused.stderr
    done = tfdist("quantize", "perfect.keras", *options, "--overwrite", cwd=made, timeout=180)
    assert done.returncode == 6, done.stderr
    assert "The budget cannot be held, and nothing was made." in done.stdout and "--max-drop" in done.stdout
    assert (made / "out.keras").read_bytes() == b"earlier"
