"""Checkpoints of a run: when to make one, which to keep, how they lie on the disk, how they come back.

The names load with their first use: the modules that only decide, and those that read and check files, work without
TensorFlow.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tfdist.checkpoint.checkpoint_manager import CheckpointManager
    from tfdist.checkpoint.retention_policy import RetentionPolicy
    from tfdist.checkpoint.save_policy import SavePolicy
    from tfdist.checkpoint.summary import CheckpointSummary

__all__ = ["CheckpointManager", "SavePolicy", "RetentionPolicy", "CheckpointSummary"]

_MODULES = {
    "CheckpointManager": "checkpoint_manager",
    "SavePolicy": "save_policy",
    "RetentionPolicy": "retention_policy",
    "CheckpointSummary": "summary",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
