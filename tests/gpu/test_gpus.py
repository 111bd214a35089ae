"""On a machine with GPUs: several replicas on them give the numbers of one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.workers.cli_process import ROOT, tfdist

tf = pytest.importorskip("tensorflow")
GPUS = len(tf.config.list_physical_devices("GPU"))
pytestmark = [pytest.mark.gpu, pytest.mark.skipif(GPUS == 0, reason="no GPU on this machine")]


def losses(folder: Path, *options: str) -> list[float]:
    run_dir = folder / "run"
    done = tfdist("train", ROOT / "configs" / "digits.yaml", *options, "--run-dir", run_dir, "--overwrite", timeout=300)
    assert done.returncode == 0, done.stderr
    return json.loads((run_dir / "history.json").read_text())["val_loss"]


@pytest.mark.bound(700)
@pytest.mark.parametrize(
    "options",
    [
        pytest.param(["--devices", "0", "--logical-devices", "2"], id="logical"),
        pytest.param(
            ["--nproc", "2"], id="workers", marks=pytest.mark.skipif(GPUS < 2, reason="needs a GPU for each worker")
        ),
        pytest.param([], id="mirrored", marks=pytest.mark.skipif(GPUS < 2, reason="needs two GPUs")),
    ],
)
def test_numbers_of_one_gpu(tmp_path: Path, options: list[str]) -> None:
    assert losses(tmp_path, *options) == pytest.approx(losses(tmp_path, "--devices", "0"), rel=1e-4)
