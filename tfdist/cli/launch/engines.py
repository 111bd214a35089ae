"""The engines that `--on` offers: where the function of each is, imported when it is called, and its argument."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from tfdist.cli.train_target import Target

ENGINES: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "ssh": ("tfdist.cli.launch.on_ssh:launch_on_ssh", "hosts of a hostfile, by your own ssh"),
        "mpi": ("tfdist.cli.launch.on_mpi:launch_on_mpi", "the same, by mpirun of Open MPI, MPICH or Intel MPI"),
        "ray": ("tfdist.cli.launch.on_ray:launch_on_ray", "nodes of a Ray cluster"),
        "slurm": ("tfdist.cli.launch.on_slurm:launch_on_slurm", "a job of Slurm's, or the allocation that there is"),
    }
)
"""Value of `--on` -> where its function is, and what it starts on."""


@dataclass(frozen=True)
class EngineCall:
    """One `tfdist launch`.

    Attributes:
        target: What is trained; nobody has looked for it yet, as it is the hosts' and not this machine's.
        options: The engines' own options by their Python names, defaults included: `workers_per_host`.
        train: The options of `tfdist train` by theirs, defaults included: `run_dir`.
        train_arguments: Those that were given, as `tfdist train` takes them on a host: `--run-dir=runs/a`.
        given: The Python names of all options that were given.
        verbose: Whether to say more.
    """

    target: Target
    options: Mapping[str, Any]
    train: Mapping[str, Any]
    train_arguments: tuple[str, ...]
    given: frozenset[str]
    verbose: bool = False

    @property
    def arguments(self) -> tuple[str, ...]:
        """All that follows `tfdist train`, but for the cluster: the options that were given, and the target."""
        return (*self.train_arguments, *self.target.arguments)


def call_engine(name: str, call: EngineCall) -> int:
    """Starts a training by an engine, sees it to its end, and returns the exit code of `tfdist`."""
    module, _, attribute = ENGINES[name][0].partition(":")
    function: Any = getattr(importlib.import_module(module), attribute)
    return int(function(call))
