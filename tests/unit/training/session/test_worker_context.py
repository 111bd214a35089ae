from __future__ import annotations

from typing import Any

import pytest

from tfdist.launch.worker_options import WorkerOptions
from tfdist.training.session.worker_context import idle_options


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("on_gpus", [False, True])
def test_nothing_was_asked_for(workers: int, on_gpus: bool) -> None:
    assert idle_options(WorkerOptions(), workers=workers, on_gpus=on_gpus) == []


@pytest.mark.parametrize(
    ("workers", "on_gpus", "given", "said"),
    [
        (1, False, {"memory_limit": 100}, ["limit of 100 MiB", "limits GPUs, and this run computes on CPUs"]),
        (2, False, {"memory_limit": 100}, ["The memory limit of 100 MiB", "--memory-limit", "devices.memory_limit"]),
        (1, True, {"memory_limit": 100}, []),
        (2, False, {"share_gpu": True}, ["--share-gpu has no effect", "this run computes on CPUs"]),
        (2, True, {"share_gpu": True}, []),
        (1, False, {"compression": "bfloat16"}, ["--compression bfloat16 has no effect", "and this run has one."]),
        (1, True, {"compression": "float16"}, ["--compression float16 has no effect"]),
        (2, False, {"compression": "bfloat16"}, []),
        (1, False, {"communication": "ring"}, ["--communication ring has no effect"]),
        (1, True, {"communication": "ring"}, []),
        (1, True, {"communication": "nccl"}, []),
        (2, False, {"communication": "ring"}, []),
        (1, False, {"communication": "shm"}, ["--communication shm has no effect"]),
        (1, False, {"shard": "zero1"}, ["--shard zero1 has no effect", "this run has one", "--nproc N or --workers"]),
        (2, False, {"shard": "zero2"}, []),
        (2, False, {"shard": "zero2", "shard_over": "host"}, []),
        (2, False, {"shard_over": "host"}, ["--shard-over host has no effect", "--shard none cuts nothing"]),
        (1, False, {"shard_embeddings": 9}, ["--shard-embeddings 9 has no effect", "this run has one"]),
        (2, False, {"shard_embeddings": 9}, []),
    ],
)
def test_what_has_no_effect_is_said(workers: int, on_gpus: bool, given: dict[str, Any], said: list[str]) -> None:
    found = idle_options(WorkerOptions(**given), workers=workers, on_gpus=on_gpus)
    assert len(found) == bool(said)
    assert all(part in found[0] for part in said)


def test_each_has_its_sentence() -> None:
    options = WorkerOptions(memory_limit=1, compression="bfloat16", communication="ring")
    found = idle_options(options, workers=1, on_gpus=False)
    assert len(found) == 3
