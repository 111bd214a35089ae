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


@pytest.mark.parametrize(
    ("asked", "linked", "communication"),
    [
        ("auto", 3, "shm"),
        ("auto", 2, "shm+ring"),
        ("auto", 1, "ring"),
        ("shm", 3, "shm"),
        ("shm", 2, "shm+ring"),
        ("shm", 1, "shm+ring"),  # whether workers of another host share memory is settled by all of them
        ("ring", 3, "ring"),
    ],
)
def test_workers_that_share_memory(asked: str, linked: int, communication: str) -> None:
    assert choose(CPU, workers=3, logical=False, communication=asked, linked=linked).communication == communication


@pytest.mark.parametrize(
    ("shares", "asked", "communication", "reason"),
    [
        (True, "auto", "nccl", "the replicas are on GPUs, which workers share"),
        (False, "auto", "ring", "NCCL before 2.30 has no workers that share a GPU"),
        (True, "nccl", "nccl", "as asked for"),
        (True, "ring", "ring", "as asked for"),
        (False, "ring", "ring", "as asked for"),
    ],
)
def test_workers_that_share_a_gpu(shares: bool, asked: str, communication: str, reason: str) -> None:
    choice = choose(GPU, workers=2, logical=False, communication=asked, nccl_shares_gpu=shares)
    assert choice.communication == communication
    assert reason in choice.reason


def test_an_old_nccl_does_not_exchange_on_one_gpu() -> None:
    with pytest.raises(UsageError, match="from NCCL 2.30 on.*Use --communication auto"):
        choose(GPU, workers=2, logical=False, communication="nccl", nccl_shares_gpu=False)


def test_gpus_do_not_send_through_the_memory_of_the_host() -> None:
    assert choose(GPU, workers=2, logical=False, linked=2).communication == "nccl"
    assert choose(GPUS, workers=2, logical=True, linked=2).communication == "ring"
    with pytest.raises(UsageError, match="Received: replicas on GPUs. Use --communication auto"):
        choose(GPU, workers=2, logical=False, communication="shm", linked=2)


def test_one_worker_shares_memory_with_nobody() -> None:
    assert choose(CPU, workers=1, logical=False, communication="shm").communication == "none"


def test_compressed_gradients_are_sent() -> None:
    choice = choose(CPU, workers=2, logical=False, compression="bfloat16")
    assert (choice.communication, choice.reason) == ("ring", "gradients are compressed")
    assert choose(CPU, workers=4, logical=False, compression="bfloat16", linked=2).communication == "shm+ring"
    with pytest.raises(UsageError, match="Received: both, with --compression bfloat16. Leave one of them out"):
        choose(CPU, workers=2, logical=False, communication="shm", compression="bfloat16", linked=2)
