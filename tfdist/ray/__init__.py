"""Training on a Ray cluster, with the extra `ray` (`pip install "tfdist[ray]"`).

- `job/` runs `tfdist launch --on ray`: launchers in actors, on the nodes of a placement group
- `train/` has `Trainer`, a trainer of Ray Train whose workers train with tfdist, and the `callbacks` of its `fit`s
- `ray_library` imports the library, and connects to a cluster

The names below load with their first use: neither Ray nor TensorFlow is imported before.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tfdist.ray.train.report_callback import callbacks
    from tfdist.ray.train.trainer import Trainer

__all__ = ["Trainer", "callbacks"]

_MODULES = {"Trainer": "trainer", "callbacks": "report_callback"}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'tfdist.ray' has no attribute {name!r}")
    from tfdist.ray.ray_library import ray_library

    # Says what to install where Ray is not.
    ray_library()
    return getattr(importlib.import_module(f"tfdist.ray.train.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
