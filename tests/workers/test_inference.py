"""`tfdist predict` and `tfdist evaluate` on several workers and devices, beside Keras on one device."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.helpers.cli_process import ROOT, begun, tfdist
from tests.helpers.marks import slow
from tests.helpers.waiting import until

SCRIPT = ROOT / "tests" / "workers" / "scripts" / "predicting.py"
BATCH = ["--batch-size", 61]
SIZES = (1, 65, 450)
WAYS = {"gpus": [], "nproc": ["--nproc", 2], "logical": ["--logical-devices", 2], "one": []}
TWO_GPUS = {"TFDIST_EMULATE_GPUS": "count=2"}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the models, their samples, and what one device makes of them."""
    folder = tmp_path_factory.mktemp("inference")
    subprocess.run([sys.executable, SCRIPT, folder], check=True, timeout=120, cwd=ROOT, capture_output=True)
    function = "tests.workers.gated_samples.samples"
    (folder / "gated.yaml").write_text(f"{{format: generator, function: {function}, samples: 450}}")
    return folder


def predict(folder: Path, output: str, *options: object, **variables: str) -> subprocess.CompletedProcess[str]:
    """Of `several.keras`."""
    command = ["predict", "several.keras", *BATCH, "-o", output, *options]
    return tfdist(*command, cwd=folder, timeout=120, environ={"PYTHONPATH": str(ROOT), **variables})


def check_expected(folder: Path, output: str, samples: int) -> None:
    with np.load(folder / "expected.npz") as expected, np.load(folder / output) as found:
        assert found["index"].tolist() == list(range(samples))
        np.testing.assert_allclose(found["p"], expected["p"][:samples], rtol=1e-5, atol=1e-6)
        for name in ("bins", "words"):
            assert found[name].tolist() == expected[name][:samples].tolist()
        assert found["p"].dtype == np.float32 and found["bins"].dtype == expected["bins"].dtype


@pytest.mark.parametrize(
    ("samples", "way"),
    [
        (450, "gpus"),
        *(slow(samples, "nproc") for samples in SIZES),
        *(slow(samples, "logical") for samples in SIZES),
    ],
)
def test_predictions_of_one_device(samples: int, way: str, made: Path) -> None:
    name = f"{way}-{samples}.npz"
    variables = TWO_GPUS if way == "gpus" else {}
    done = predict(made, name, "--data", f"{samples}.yaml", *WAYS[way], "--part-samples", 100, **variables)
    assert done.returncode == 0, done.stderr
    assert ("tfdist: one worker on each of 2 GPUs; --nproc 1 " in done.stderr) == (way == "gpus")
    assert f"{samples:,} sample" in done.stdout and f"p float32[3], words string[4] in {name}" in done.stdout
    check_expected(made, name, samples)
    assert not list(made.glob("*.parts"))


@pytest.mark.slow
def test_double_precision(made: Path) -> None:
    options = ["--data", "65.yaml", *BATCH, "--nproc", 2, "-o", "teacher.npz"]
    done = tfdist("predict", "one.keras", *options, cwd=made, timeout=120)
    assert done.returncode == 0, done.stderr
    with np.load(made / "expected.npz") as expected, np.load(made / "teacher.npz") as found:
        assert found["output"].dtype == np.float64
        np.testing.assert_allclose(found["output"], expected["double"][:65], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("samples", "way"), [(65, "nproc"), slow(1, "nproc"), slow(450, "nproc"), slow(65, "logical"), slow(1, "logical")]
)
def test_metrics_of_one_device(samples: int, way: str, made: Path) -> None:
    options = ["--data", f"{samples}.yaml", *BATCH, *WAYS[way], "--json"]
    done = tfdist("evaluate", "one.keras", *options, cwd=made, timeout=120)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    with np.load(made / "expected.npz") as expected:
        metrics = expected["metrics"][SIZES.index(samples)]
    np.testing.assert_allclose(list(document["metrics"].values()), metrics, rtol=1e-6)
    assert list(document["metrics"]) == ["loss", "accuracy", "sparse_categorical_crossentropy"]
    assert document["samples"] == samples


def parts(folder: Path) -> int:
    """The samples that are kept."""
    try:
        return json.loads((folder / "gated.npz.parts" / "manifest.json").read_text())["parts"][-1]["stop"]
    except (FileNotFoundError, IndexError):
        return 0


@pytest.mark.slow
def test_a_killed_prediction_goes_on(made: Path) -> None:
    """On other workers than before."""
    command = ["predict", made / "several.keras", *BATCH, "--data", made / "gated.yaml", "-o", made / "gated.npz"]
    # The generator takes paths, and looks for modules, where the command is run.
    environ = {"PYTHONPATH": str(ROOT)}
    prefix = ["env", "-C", str(made)]
    with begun(*command, "--nproc", 2, "--part-samples", 61, environ=environ, prefix=prefix) as process:
        until(lambda: parts(made) >= 183, 60, "three parts did not come")
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(10)
    kept = parts(made)
    assert 183 <= kept < 300 and not (made / "gated.npz").exists()
    other = predict(made, "gated.npz", "--data", "450.yaml")
    assert other.returncode == 2 and "holds parts of other predictions" in other.stderr and parts(made) == kept
    (made / "gate").touch()
    done = predict(made, "gated.npz", "--data", "gated.yaml")
    assert done.returncode == 0, done.stderr
    assert f"{kept} of 450 samples are predicted already" in done.stderr
    assert f"450 samples, {450 - kept} of them now" in done.stdout
    check_expected(made, "gated.npz", 450)
    assert not (made / "gated.npz.parts").exists()
    refused = predict(made, "gated.npz", "--data", "450.yaml")
    assert refused.returncode == 2 and "gated.npz exists already" in refused.stderr


@pytest.mark.slow
def test_models_that_cannot_be_used(made: Path) -> None:
    done = tfdist("evaluate", "several.keras", "--data", "1.yaml", cwd=made, timeout=120)
    assert done.returncode == 2 and "saved without a loss and metrics" in done.stderr
    (made / "unknown.py").write_text("import keras\n\nclass Unknown(keras.layers.Dense): ...\n")
    code = "import keras, unknown; keras.Sequential([keras.Input([4]), unknown.Unknown(1)]).save('unknown.keras')"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=150, cwd=made, capture_output=True)
    done = tfdist("predict", "unknown.keras", "--data", "1.yaml", "-o", "a.npz", cwd=made, timeout=120)
    assert done.returncode == 2 and "Could not locate class 'Unknown'" in done.stderr and "--import" in done.stderr
    assert not list(made.glob("a.npz*"))


@pytest.mark.slow
@pytest.mark.parametrize(("verb", "model"), [("predict", "several.keras"), ("evaluate", "one.keras")])
def test_data_that_does_not_fit_the_model(verb: str, model: str, made: Path, tmp_path: Path) -> None:
    np.savez(tmp_path / "wide.npz", x_train=np.zeros([70, 5], np.float32), y_train=np.zeros(70))
    (tmp_path / "wide.yaml").write_text("{format: npz, path: wide.npz, split: train}")
    options = ["-o", tmp_path / "a.npz"] if verb == "predict" else []
    done = tfdist(verb, made / model, "--data", tmp_path / "wide.yaml", "--nproc", 2, *options, timeout=120)
    assert done.returncode == 5, done.stderr
    assert "wide: the samples do not fit the model: " in done.stderr and "float32 (None, 5)" in done.stderr
    assert "Traceback" not in done.stderr and not list(tmp_path.glob("a.npz*"))
