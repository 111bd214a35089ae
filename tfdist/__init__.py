"""Distributed training for TensorFlow and Keras 3 with the numbers of one device.

The names below load with their first use: importing tfdist loads neither TensorFlow nor Keras.

A run passes through the packages in this order. `cli` reads the command line, or `notebook` what a notebook calls,
`config` the config, and `cluster` finds out who takes part. `launch` meets the launchers of other hosts over `net`,
takes the run directory (`rundir`) and starts the workers. In each worker `training` sets up devices and strategy
(`runtime`), installs `keras_repairs`, reads `data` in the `order` of the global batches, runs Keras `fit` and saves to
`checkpoint`. `plan` foresees a run, `verify` compares runs, `reports` tells of them, `doctor` checks machines, and
`selftest` tries them with trainings. `models` has small models to try with, `layers` those of which each worker holds a
part, `optimizers` one for them, `examples` the files that `tfdist examples copy` writes; `errors`, `text` and
`versions` serve all of them.
"""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

if sys.version_info < (3, 11):  # noqa: UP036 - that is the point
    # pip refuses to install it here; this is for a source tree, where `python -m tfdist` has not got a name yet.
    needed = f"tfdist needs Python 3.11 to 3.13. Received: Python {sys.version.split()[0]}, {sys.executable}."
    if sys.argv[0] != "-m":
        raise ImportError(needed)
    print(f"error: {needed}", file=sys.stderr)
    raise SystemExit(2)

if TYPE_CHECKING:
    from tfdist import data, layers, optimizers
    from tfdist.cluster.cluster_spec import Cluster
    from tfdist.cluster.tf_config import tf_config
    from tfdist.config import RunConfig, load_config
    from tfdist.errors import (
        ClusterError,
        ConfigError,
        DataError,
        FormingError,
        PortTakenError,
        RunDirError,
        TfdistError,
        UnsupportedError,
        UsageError,
        WorkerFailedError,
    )
    from tfdist.keras_repairs.callbacks.callback_placement import on_chief, on_every_worker
    from tfdist.keras_repairs.coupling.declarations import averaged, summed
    from tfdist.keras_repairs.forward.gathering import gathered
    from tfdist.keras_repairs.loop.predictions import predictions_on_chief
    from tfdist.notebook.notebook_launcher import notebook_launcher
    from tfdist.training.api import callbacks, is_chief, num_replicas, num_workers, strategy, worker_index
    from tfdist.training.collectives_api import (
        Group,
        Handle,
        all_gather,
        all_gather_object,
        all_reduce,
        all_to_all,
        barrier,
        broadcast,
        broadcast_object,
        gather,
        group,
        recv,
        reduce,
        reduce_scatter,
        scatter,
        send,
    )
    from tfdist.training.pruning.channel_removal import without_pruned_channels
    from tfdist.training.pruning.pruning_callback import Pruning
    from tfdist.training.quantization_aware_callback import QuantizationAware

__all__ = [
    "Cluster",
    "ClusterError",
    "ConfigError",
    "DataError",
    "FormingError",
    "Group",
    "Handle",
    "PortTakenError",
    "Pruning",
    "QuantizationAware",
    "RunConfig",
    "RunDirError",
    "TfdistError",
    "UnsupportedError",
    "UsageError",
    "WorkerFailedError",
    "all_gather",
    "all_gather_object",
    "all_reduce",
    "all_to_all",
    "averaged",
    "barrier",
    "broadcast",
    "broadcast_object",
    "callbacks",
    "data",
    "gather",
    "gathered",
    "group",
    "is_chief",
    "layers",
    "load_config",
    "notebook_launcher",
    "num_replicas",
    "num_workers",
    "on_chief",
    "on_every_worker",
    "optimizers",
    "predictions_on_chief",
    "recv",
    "reduce",
    "reduce_scatter",
    "scatter",
    "send",
    "strategy",
    "summed",
    "tf_config",
    "without_pruned_channels",
    "worker_index",
]

_MODULES = {
    "Cluster": "cluster.cluster_spec",
    "Group": "training.collectives_api",
    "Handle": "training.collectives_api",
    "Pruning": "training.pruning.pruning_callback",
    "QuantizationAware": "training.quantization_aware_callback",
    "RunConfig": "config",
    "all_gather": "training.collectives_api",
    "all_gather_object": "training.collectives_api",
    "all_reduce": "training.collectives_api",
    "all_to_all": "training.collectives_api",
    "averaged": "keras_repairs.coupling.declarations",
    "barrier": "training.collectives_api",
    "broadcast": "training.collectives_api",
    "broadcast_object": "training.collectives_api",
    "gather": "training.collectives_api",
    "gathered": "keras_repairs.forward.gathering",
    "group": "training.collectives_api",
    "load_config": "config",
    "notebook_launcher": "notebook.notebook_launcher",
    "on_chief": "keras_repairs.callbacks.callback_placement",
    "on_every_worker": "keras_repairs.callbacks.callback_placement",
    "predictions_on_chief": "keras_repairs.loop.predictions",
    "recv": "training.collectives_api",
    "reduce": "training.collectives_api",
    "reduce_scatter": "training.collectives_api",
    "scatter": "training.collectives_api",
    "send": "training.collectives_api",
    "summed": "keras_repairs.coupling.declarations",
    "tf_config": "cluster.tf_config",
    "without_pruned_channels": "training.pruning.channel_removal",
}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return importlib.import_module("tfdist.versions").VERSION
    if name in ("data", "layers", "optimizers", "ray"):
        return importlib.import_module(f"tfdist.{name}")
    if name not in __all__:
        raise AttributeError(f"module 'tfdist' has no attribute {name!r}")
    module = _MODULES.get(name) or ("errors" if name.endswith("Error") else "training.api")
    return getattr(importlib.import_module(f"tfdist.{module}"), name)


def __dir__() -> list[str]:
    return __all__
