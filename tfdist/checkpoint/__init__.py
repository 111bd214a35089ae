"""Checkpoints of a run: when to save, which to keep, how they are written and restored.

`checkpoint_policies` decide. `checkpoint_manager` saves and restores for all workers: the `background_writer` runs a
`checkpoint_writer`, which writes a `pending_checkpoint` into a `checkpoint_store` (`checkpoint_files` on this machine,
or a URL) and lets the `checkpoint_pruner` remove old ones. By a `generation_claim` an earlier start of an elastic job
publishes none. `shards` has checkpoints of which each worker writes its shard. `checkpoint_contents` has its summary,
and looks at what somebody else may have written. `inspection` is what `tfdist checkpoints` does.

The names load with their first use: modules that only decide, or read and check files, work without TensorFlow.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tfdist.checkpoint.checkpoint_contents import CheckpointSummary
    from tfdist.checkpoint.checkpoint_manager import CheckpointManager
    from tfdist.checkpoint.checkpoint_policies import RetentionPolicy, SavePolicy

__all__ = ["CheckpointManager", "SavePolicy", "RetentionPolicy", "CheckpointSummary"]

_MODULES = {
    "CheckpointManager": "checkpoint_manager",
    "SavePolicy": "checkpoint_policies",
    "RetentionPolicy": "checkpoint_policies",
    "CheckpointSummary": "checkpoint_contents",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
