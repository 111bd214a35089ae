"""Options of `tfdist verify --kill`."""

from __future__ import annotations

from dataclasses import dataclass

from tfdist.verify.target_spec import TargetSpec


@dataclass(frozen=True)
class KillSpec(TargetSpec):
    """Options of `tfdist verify --kill`. The seed is that of every run and of the choice of kills.

    Attributes:
        workers: Processes of every run, on this machine.
        kills: How often the run is killed.
        steps: Training steps; None for as many as the target trains.
    """

    workers: int = 2
    kills: int = 3
    steps: int | None = None
