"""What `tfdist verify --kill` is asked to do."""

from __future__ import annotations

from dataclasses import dataclass

from tfdist.launch.environment import TargetKind
from tfdist.launch.output import Show


@dataclass(frozen=True)
class KillSpec:
    """The command line.

    Attributes:
        target_kind: What `target` is.
        target: Path or dotted name of what to train.
        name: What the run is called.
        args: The script's own arguments.
        overrides: KEY=VALUE texts of `--set`.
        seed: Of every run, and of the choice of the kills.
        workers: Of every run, as processes of this machine.
        kills: How often the run is killed.
        steps: Training steps; None for all that the target trains.
        devices: GPUs to use; None for all.
        memory_limit: MiB of a logical GPU.
        start_timeout: Seconds in which the workers must find one another.
        step_timeout: Seconds that a step may take.
        show: Whose output the terminal shows.
        verbose: Say more.
        keep: Where the run directories stay; None to remove them.
    """

    target_kind: TargetKind
    target: str
    name: str
    args: tuple[str, ...] = ()
    overrides: tuple[str, ...] = ()
    seed: int = 1
    workers: int = 2
    kills: int = 3
    steps: int | None = None
    devices: tuple[int, ...] | None = None
    memory_limit: int | None = None
    start_timeout: float = 120.0
    step_timeout: float = 600.0
    show: Show = "none"
    verbose: bool = False
    keep: str | None = None
