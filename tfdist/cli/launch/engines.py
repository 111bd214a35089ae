"""The engines that `--on` offers: where the function of each is, imported when it is called."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from tfdist.cli.launch.engine_call import EngineCall

ENGINES: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "ssh": ("tfdist.cli.launch.on_ssh:launch_on_ssh", "hosts of a hostfile, by your own ssh"),
        "mpi": ("tfdist.cli.launch.on_mpi:launch_on_mpi", "the same, by mpirun of Open MPI, MPICH or Intel MPI"),
        "ray": ("tfdist.cli.launch.on_ray:launch_on_ray", "nodes of a Ray cluster"),
        "slurm": ("tfdist.cli.launch.on_slurm:launch_on_slurm", "a job of Slurm's, or the allocation that there is"),
    }
)
"""Value of `--on` -> where its function is, and what it starts on."""


def call_engine(name: str, call: EngineCall) -> int:
    """Starts a training by an engine, sees it to its end, and returns the exit code of `tfdist`."""
    module, _, attribute = ENGINES[name][0].partition(":")
    function: Any = getattr(importlib.import_module(module), attribute)
    return int(function(call))
