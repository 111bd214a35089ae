"""`tfdist train`, `verify` and `doctor` on a machine with GPUs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.gpu.machine import gpu_count, needs
from tests.workers.cli_process import ROOT, tfdist

pytestmark = [pytest.mark.gpu, needs(1)]


def losses(folder: Path, *options: str) -> list[float]:
    run_dir = folder / "run"
    # TensorFloat-32 is for some shapes of a product and not for others: a batch that is cut would differ by more.
    done = tfdist(
        *("train", ROOT / "configs" / "digits.yaml", *options, "--run-dir", run_dir, "--overwrite"),
        timeout=300,
        environ={"NVIDIA_TF32_OVERRIDE": "0"},
    )
    assert done.returncode == 0, done.stderr
    return json.loads((run_dir / "history.json").read_text())["val_loss"]


@pytest.mark.bound(700)
@pytest.mark.parametrize(
    "options",
    [
        pytest.param(["--devices", "0", "--logical-devices", "2"], id="logical"),
        pytest.param(["--nproc", "2"], id="workers", marks=needs(2)),
        pytest.param(["--nproc", "2", "--communication", "ring"], id="workers over ring", marks=needs(2)),
        pytest.param([], id="mirrored", marks=needs(2)),
        pytest.param(["--communication", "ring"], id="mirrored by copies", marks=needs(2)),
    ],
)
def test_numbers_of_one_gpu(tmp_path: Path, options: list[str]) -> None:
    assert losses(tmp_path, *options) == pytest.approx(losses(tmp_path, "--devices", "0"), rel=1e-4)


@pytest.mark.bound(700)
def test_verify_on_parts_of_one_gpu(tmp_path: Path) -> None:
    done = tfdist(*("verify", ROOT / "configs" / "digits.yaml", "--devices", "0", "--steps", "13"), timeout=690)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed" in done.stdout


@needs(2)
@pytest.mark.bound(900)
def test_verify_compares_nccl_with_ring(tmp_path: Path) -> None:
    done = tfdist(
        *("verify", ROOT / "configs" / "digits.yaml", "--nproc", "2", "--steps", "13", "--also", "communication"),
        timeout=890,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 workers, NCCL against 2 workers, RING" in done.stdout


def test_doctor_finds_all_gpus() -> None:
    done = tfdist("doctor", "--json", timeout=120)
    told = json.loads(done.stdout)
    checks = {check["name"]: check for check in told["checks"]}
    assert {f"GPU {number}" for number in range(gpu_count())} <= checks.keys()
    assert checks["TensorFlow"]["status"] == "ok"
    assert checks["compute capability"]["status"] == "ok" if "compute capability" in checks else True
    assert {"NCCL", "GPUs in TensorFlow"} <= checks.keys()
