"""The memory of a run's devices as JSON."""

from __future__ import annotations

import dataclasses
from typing import Any

from tfdist.plan.memory.memory_plan import MemoryPlan, ModeMemory


def memory_to_json(plan: MemoryPlan) -> dict[str, Any]:
    """The plan in JSON's types; sizes in bytes."""
    smallest, offloaded = plan.smallest_mode, plan.smallest_offloaded
    return {
        "samples_of_a_step": plan.share,
        "devices": plan.devices,
        "device": plan.device,
        "device_memory": plan.device_memory,
        "option": plan.option,
        "modes": {mode.mode: _mode(mode) for mode in plan.modes},
        "smallest_mode": None if smallest is None else smallest.mode,
        "further_offload": plan.further_offload,
        "smallest_offloaded": None if offloaded is None else offloaded.mode,
        "why_one_mode": plan.why_one_mode,
        "why_no_activations": plan.sizes.why_no_activations,
        "uncounted": list(plan.sizes.uncounted),
        "layouts": None if plan.layouts is None else plan.layouts.to_json(),
    }


def _mode(mode: ModeMemory) -> dict[str, Any]:
    values = dataclasses.asdict(mode)
    del values["mode"]
    return {**values, "total": mode.total, "most": mode.most}
