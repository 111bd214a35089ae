from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from tfdist.cluster.membership import Membership
from tfdist.config import CompileConfig, DataConfig, DevicesConfig, ModelConfig, NpzSource, RunConfig
from tfdist.errors import UsageError
from tfdist.launch.environment import Assignment
from tfdist.launch.job_spec import JobSpec
from tfdist.launch.worker_options import WorkerOptions

ALONE = Membership(None, (0,))


def test_a_job_hands_all_of_them_to_its_workers() -> None:
    given: dict[str, Any] = {"args": ("--epochs", "3"), "devices": (0, 2), "resume": "auto", "grace": 5.0}
    options = JobSpec(ALONE, "script", "train.py", **given).worker_options()
    assert set(options) == {field.name for field in dataclasses.fields(WorkerOptions)}
    assignment = Assignment("/r", 1, 0, 1, "script", "train.py", **options)
    assert {name: getattr(assignment, name) for name in given} == given


def test_what_must_be_the_same_on_every_host() -> None:
    options = JobSpec(ALONE, "script", "train.py", batch_norm="replica").options_in_common()
    others = {"--communication": "auto", "--compression": "none", "--jit": "auto", "--kernels": "auto"}
    others |= {"--check": "auto", "--checkpoint-every": "none", "--share-gpu": "none", "--strict": "none"}
    sharding = {"--shard": "none", "--shard-over": "all", "--shard-embeddings": "none", "--offload": "none"}
    sharding |= {"--tensor": "1", "--context": "1"}
    assert options == {"--batch-norm": "replica", **others, **sharding}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, (7, 2, 512)),
        ({"seed": 0, "logical_devices": 3}, (0, 3, 512)),
        ({"memory_limit": 64}, (7, 2, 64)),
        ({"share_gpu": True}, (7, 2, 512)),
    ],
)
def test_the_command_line_comes_before_the_config(given: dict[str, Any], expected: tuple[int, int, int]) -> None:
    config = RunConfig(
        name="digits",
        seed=7,
        model=ModelConfig(build="a.b"),
        compile=CompileConfig(optimizer="sgd", loss="mse"),
        data=DataConfig(batch_size=8, train=NpzSource(format="npz", path="/x.npz", split="train")),
        devices=DevicesConfig(logical=2, memory_limit=512),
    )
    job = JobSpec.for_config(config, membership=ALONE, target="digits.yaml", **given)
    assert (job.target_kind, job.name, job.config) == ("config", "digits", config)
    assert (job.seed, job.logical_devices, job.memory_limit) == expected
    assert job.share_gpu == given.get("share_gpu", False)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"communication": "mpi"}, "--communication must be one of auto, nccl, ring, shm. Received: 'mpi'"),
        ({"batch_norm": "none"}, "--batch-norm must be one of synchronized, replica. Received: 'none'"),
        ({"compression": "int8"}, "--compression must be one of none, bfloat16, float16. Received: 'int8'"),
        ({"jit": True}, "--jit must be one of auto, on, off. Received: True"),
        ({"kernels": "mkl"}, "--kernels must be one of auto, tensorflow, onednn. Received: 'mkl'"),
        ({"shard": "zero9"}, "--shard must be one of none, zero1, zero2, zero3. Received: 'zero9'"),
        ({"offload": "all"}, "--offload must be one of none, optimizer, optimizer:disk. Received: 'all'"),
        ({"offload": "optimizer", "logical_devices": 2}, "Received: --offload optimizer with --logical-devices 2"),
        ({"shard": "zero1", "logical_devices": 2}, "Received: --shard zero1 with --logical-devices 2"),
        ({"resume": "yes"}, "--resume must be one of auto, must, never. Received: 'yes'"),
        ({"progress": "dots"}, "--progress must be one of auto, bar, plain, none. Received: 'dots'"),
        ({"step_timeout": 0}, "--step-timeout must be more than 0 seconds. Received: 0"),
        ({"first_step_timeout": -1}, "--first-step-timeout must be more than 0 seconds"),
        ({"grace": float("nan")}, "--grace must be more than 0 seconds. Received: nan"),
    ],
)
def test_an_impossible_value_is_an_error_before_any_worker_starts(given: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError) as raised:
        JobSpec(ALONE, "script", "train.py", **given)
    assert says in str(raised.value)
