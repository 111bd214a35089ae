"""The data plan of a config: looks up the sizes of its data and plans from them. Without TensorFlow."""

from __future__ import annotations

from tfdist.config import RunConfig
from tfdist.data.format_registry import measure
from tfdist.data.ops.prefetch import GROUP_BYTES, PARALLEL_GROUPS, PREFETCHED_STEPS
from tfdist.plan.plan import DataPlan, make_plan
from tfdist.plan.plan_inputs import ClusterSize, PipelineBuffers

# While groups are read, one more is being cut into batches.
_BUFFERING = PipelineBuffers(prefetched=PREFETCHED_STEPS, group_bytes=GROUP_BYTES, groups=PARALLEL_GROUPS + 1)


def plan_run(config: RunConfig, layout: ClusterSize) -> DataPlan:
    """Plans what a run will do with its data.

    Args:
        config: The run's.
        layout: Workers and replicas.

    Raises:
        DataError: The data is missing, damaged or empty.
    """
    sections = {"data.train": config.data.train, "data.validation": config.data.validation}
    sizes = {key: measure(section, key) for key, section in sections.items() if section is not None}
    return make_plan(config, layout, sizes, _BUFFERING)
