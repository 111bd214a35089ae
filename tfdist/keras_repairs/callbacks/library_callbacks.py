"""Callbacks of libraries that only write, to a file, a server or the screen, as Keras's own `CSVLogger` does.

They are told by name, so that no library needs to be installed. A subclass of the user's own is none of them: it may
call `predict`, in which all workers take part.
"""

from __future__ import annotations

from typing import Any

_WRITERS = {
    "dvclive": {"DVCLiveCallback"},
    "livelossplot": {"PlotLossesCallback"},
    "mlflow": {"MlflowCallback", "MlflowModelCheckpointCallback"},
    "neptune_tensorflow_keras": {"NeptuneCallback"},
    "tqdm": {"TqdmCallback"},
    "wandb": {"WandbMetricsLogger", "WandbModelCheckpoint"},
}
"""The classes of each package."""


def only_writes(callback: Any) -> bool:
    """Returns whether a callback is one of a library's that leave model and training alone."""
    kind = type(callback)
    package, _, _ = kind.__module__.partition(".")
    return kind.__name__ in _WRITERS.get(package, ())
