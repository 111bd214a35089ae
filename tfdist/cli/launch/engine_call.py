"""Engine call: what `tfdist launch` was asked for, as the function of an engine gets it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tfdist.cli.train_target import Target


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
