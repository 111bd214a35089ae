"""What `tfdist verify --kill` is asked to do."""

from __future__ import annotations

from dataclasses import dataclass

from tfdist.verify.target_spec import TargetSpec


@dataclass(frozen=True)
class KillSpec(TargetSpec):
    """The command line. The seed is that of every run, and of the choice of the kills.

    Attributes:
        workers: Of every run, as processes of this machine.
        kills: How often the run is killed.
        steps: Training steps; None for all that the target trains.
    """

    workers: int = 2
    kills: int = 3
    steps: int | None = None
