"""The plan of a config's data: its sizes looked up, the rest worked out from them. Without TensorFlow."""

from __future__ import annotations

from tfdist.config import RunConfig
from tfdist.data.format_registry import measure
from tfdist.data.ops.prefetch import GROUP_BYTES, PARALLEL_GROUPS, PREFETCHED_STEPS
from tfdist.plan.plan import DataPlan, make_plan
from tfdist.plan.plan_inputs import ClusterSize, PipelineBuffers

# One more group than are read at the same time is being cut into batches.
_BUFFERING = PipelineBuffers(prefetched=PREFETCHED_STEPS, group_bytes=GROUP_BYTES, groups=PARALLEL_GROUPS + 1)


def plan_run(config: RunConfig, layout: ClusterSize) -> DataPlan:
    """Plans what a run will do with its data.

    Args:
        config: What is run.
        layout: Who takes part.

    Raises:
        DataError: The data is missing, damaged or empty, as the run would find.
    """
    sections = {"data.train": config.data.train, "data.validation": config.data.validation}
    sizes = {key: measure(section, key) for key, section in sections.items() if section is not None}
    return make_plan(config, layout, sizes, _BUFFERING)
