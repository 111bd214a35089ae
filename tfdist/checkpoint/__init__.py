"""Checkpoints of a run: when to make one, which to keep, how they lie on the disk, how they come back.

The names load with their first use: the modules that only decide, and those that read and check files, work without
TensorFlow.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tfdist.checkpoint.checkpoint_manager import Checkpoints
    from tfdist.checkpoint.retention_policy import Retention
    from tfdist.checkpoint.save_policy import Policy
    from tfdist.checkpoint.summary import Summary

__all__ = ["Checkpoints", "Policy", "Retention", "Summary"]

_MODULES = {
    "Checkpoints": "checkpoint_manager",
    "Policy": "save_policy",
    "Retention": "retention_policy",
    "Summary": "summary",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
