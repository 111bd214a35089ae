"""Sources and runs to plan."""

from __future__ import annotations

from typing import Any

from tfdist.config.data_sections import NpzSource
from tfdist.config.schema import CompileConfig, DataConfig, FitConfig, ModelConfig, RunConfig
from tfdist.plan.plan import DataPlan, make_plan
from tfdist.plan.plan_inputs import ClusterSize, FileSizes, PipelineBuffers, SourceSizes

BUFFERING = PipelineBuffers(prefetched=2, group_bytes=1000, groups=3)


def source(*counts: int, record: int = 100, **more: Any) -> SourceSizes:
    """A source whose files have so many samples each, of `record` bytes."""
    files = tuple(FileSizes(f"/data/{place}.tfrecord", count, count * record) for place, count in enumerate(counts))
    return SourceSizes("tfrecord", files, more.pop("sample_bytes", record), **more)


def plan(sizes: SourceSizes, batch_size: int = 10, layout: ClusterSize = ClusterSize(), **more: Any) -> DataPlan:  # noqa: B008
    """The plan of a run that trains on `sizes`."""
    validation = more.pop("validation", None)
    section = NpzSource(path="a.npz", split="train", shuffle=more.pop("shuffle", False))
    config = RunConfig(
        name="digits",
        model=ModelConfig(build="tfdist.models.mlp"),
        compile=CompileConfig(optimizer=more.pop("optimizer", "adam"), loss="mse"),
        data=DataConfig(batch_size=batch_size, train=section, validation=section if validation else None),
        fit=FitConfig(epochs=more.pop("epochs", 3), steps_per_epoch=more.pop("steps_per_epoch", None)),
        seed=more.pop("seed", 7),
    )
    assert not more
    return make_plan(config, layout, {"data.train": sizes, "data.validation": validation}, BUFFERING)
