"""`tfdist train`, `verify` and `doctor` on a machine with GPUs."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.gpu.machine import gpu_count, needs
from tests.helpers.cli_process import ROOT, tfdist

pytestmark = [pytest.mark.gpu, needs(1)]


def losses(folder: Path, jit: bool, *options: str) -> list[float]:
    """Validation losses of a training in full float32, compiled or not on however many replicas."""
    run_dir = folder / "run"
    settings = ("--set", "model.build=tests.gpu.full_precision.mlp", "--set", f"compile.jit_compile={str(jit).lower()}")
    done = tfdist(
        *("train", ROOT / "configs" / "digits.yaml", *settings, *options, "--run-dir", run_dir, "--overwrite"),
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return json.loads((run_dir / "history.json").read_text())["val_loss"]


@pytest.fixture(scope="module")
def of_one_gpu(tmp_path_factory: pytest.TempPathFactory) -> Callable[[bool], list[float]]:
    """Returns the losses on one GPU, compiled or not."""
    return functools.cache(lambda jit: losses(tmp_path_factory.mktemp("one"), jit, "--devices", "0"))


SHARED = ["--devices", "0", "--nproc", "2", "--share-gpu"]


@pytest.mark.bound(700)
@pytest.mark.parametrize("jit", [False, True], ids=["uncompiled", "compiled"])
@pytest.mark.parametrize(
    "options",
    [
        pytest.param(["--devices", "0", "--logical-devices", "2"], id="logical"),
        pytest.param(SHARED, id="workers on one GPU"),
        pytest.param([*SHARED, "--communication", "ring"], id="workers on one GPU over ring"),
        pytest.param([], id="a worker for each", marks=needs(2)),
        pytest.param(["--nproc", "2"], id="workers", marks=needs(2)),
        pytest.param(["--nproc", "2", "--communication", "ring"], id="workers over ring", marks=needs(2)),
        pytest.param(["--nproc", "1"], id="mirrored", marks=needs(2)),
        pytest.param(["--nproc", "1", "--communication", "ring"], id="mirrored by copies", marks=needs(2)),
    ],
)
def test_numbers_of_one_gpu(
    tmp_path: Path, options: list[str], jit: bool, of_one_gpu: Callable[[bool], list[float]]
) -> None:
    assert losses(tmp_path, jit, *options) == pytest.approx(of_one_gpu(jit), rel=1e-4)


@pytest.mark.bound(300)
def test_a_second_worker_on_one_gpu_needs_the_flag(tmp_path: Path) -> None:
    config = ROOT / "configs" / "digits.yaml"
    done = tfdist("train", config, "--devices", "0", "--nproc", "2", "--run-dir", tmp_path / "run", timeout=290)
    assert done.returncode == 2
    assert "let workers share a GPU with --share-gpu" in done.stderr


@pytest.mark.bound(700)
def test_verify_on_parts_of_one_gpu(tmp_path: Path) -> None:
    done = tfdist(*("verify", ROOT / "configs" / "digits.yaml", "--devices", "0", "--steps", "13"), timeout=690)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed" in done.stdout


@pytest.mark.bound(700)
def test_verify_on_workers_that_share_a_gpu(tmp_path: Path) -> None:
    options = ("--devices", "0", "--nproc", "2", "--share-gpu", "--replicas", "1", "--steps", "13")
    done = tfdist(*("verify", ROOT / "configs" / "digits.yaml", *options), timeout=690)
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
