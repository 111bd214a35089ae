"""Batches are on the GPU of their replica before its step begins."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.gpu.machine import needs
from tests.gpu.worker_reports import reports

pytestmark = [pytest.mark.gpu, needs(1)]


@pytest.mark.parametrize(
    ("options", "replicas"),
    [
        pytest.param(["--devices", "0", "--logical-devices", "2", "--memory-limit", "512"], 2, id="logical"),
        pytest.param(["--nproc", "1", "--devices", "0,1"], 2, id="mirrored", marks=needs(2)),
    ],
)
def test_prefetched_to_the_device_of_their_replica(options: list[str], replicas: int, tmp_path: Path) -> None:
    (parts,) = reports(tmp_path, "report_batches.py", *options)
    assert len(parts) == 3 * replicas
    for number, part in enumerate(parts):
        replica = number % replicas
        assert part["device"].endswith(f"GPU:{replica}")
        assert part["values"] == [replica]


@pytest.mark.parametrize(
    "options",
    [
        pytest.param(["--devices", "0,1"], id="own", marks=needs(2)),
        pytest.param(["--devices", "0", "--share-gpu"], id="shared"),
    ],
)
def test_prefetched_to_the_gpu_of_each_worker(options: list[str], tmp_path: Path) -> None:
    found = reports(tmp_path, "report_batches.py", "--nproc", "2", *options)
    for worker, parts in enumerate(found):
        assert len(parts) == 3
        assert all(part["device"].endswith("GPU:0") and part["values"] == [worker] for part in parts)
