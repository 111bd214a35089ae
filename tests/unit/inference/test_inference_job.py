from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tfdist.cluster.discover import discover
from tfdist.config import CompileConfig, DataConfig, DevicesConfig, ModelConfig, NpzSource, RunConfig
from tfdist.inference import inference_job


@pytest.mark.parametrize(
    ("devices", "given", "expected"),
    [
        ({"share_gpu": True, "memory_limit": 64}, {"share_gpu": False, "memory_limit": None}, (True, 64)),
        ({}, {"share_gpu": True, "memory_limit": 32}, (True, 32)),
        ({}, {"share_gpu": False}, (False, None)),
    ],
)
def test_devices_of_the_config_and_of_the_command_line(
    devices: dict[str, Any], given: dict[str, Any], expected: tuple[bool, int | None]
) -> None:
    config = RunConfig(
        name="digits",
        model=ModelConfig(build="a.b"),
        compile=CompileConfig(optimizer="sgd", loss="mse"),
        data=DataConfig(batch_size=8, train=NpzSource(format="npz", path="/x.npz", split="train")),
        devices=DevicesConfig(**devices),
    )
    model: Any = SimpleNamespace(config=config, file="model.keras", document=None)
    request: Any = SimpleNamespace(verb="predict", to_argument=lambda: "{}")
    job = inference_job._job(model, request, discover(nproc=2), Path("/r"), given)
    assert (job.share_gpu, job.memory_limit) == expected
