from __future__ import annotations

import pytest

from tfdist.errors import UsageError
from tfdist.runtime.strategy import choose

CPU, CPUS = ["/device:CPU:0"], ["/device:CPU:0", "/device:CPU:1"]
GPU, GPUS = ["/device:GPU:0"], ["/device:GPU:0", "/device:GPU:1"]


@pytest.mark.parametrize(
    ("devices", "workers", "logical", "asked", "kind", "communication"),
    [
        (CPU, 1, False, "auto", "one", "none"),
        (GPU, 1, False, "auto", "one", "none"),
        (CPUS, 1, True, "auto", "mirrored", "copy"),
        (GPUS, 1, False, "auto", "mirrored", "nccl"),
        (GPUS, 1, True, "auto", "mirrored", "copy"),  # NCCL cannot talk between parts of one GPU
        (GPUS, 1, False, "ring", "mirrored", "copy"),
        (CPU, 2, False, "auto", "multi_worker", "ring"),
        (GPU, 2, False, "auto", "multi_worker", "nccl"),
        (GPUS, 2, True, "auto", "multi_worker", "ring"),
        (GPU, 2, False, "ring", "multi_worker", "ring"),
        (GPU, 2, False, "nccl", "multi_worker", "nccl"),
    ],
)
def test_choice(devices: list[str], workers: int, logical: bool, asked: str, kind: str, communication: str) -> None:
    choice = choose(devices, workers=workers, logical=logical, communication=asked)
    assert (choice.kind, choice.communication) == (kind, communication)
    assert choice.reason


@pytest.mark.parametrize(("devices", "logical"), [(CPU, False), (CPUS, True), (GPUS, True)])
def test_nccl_without_a_gpu_for_each_replica(devices: list[str], logical: bool) -> None:
    with pytest.raises(UsageError, match="--communication nccl"):
        choose(devices, workers=2, logical=logical, communication="nccl")
