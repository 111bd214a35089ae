"""Plan of the kills: the options, and which worker after which step, drawn among steps with a new checkpoint."""

from __future__ import annotations

import random
from dataclasses import dataclass

from tfdist.errors import UsageError
from tfdist.launch.worker_requests import Kill
from tfdist.training.probes.probe_files import Trace
from tfdist.verify.runs import TargetSpec


def choose_kills(trace: Trace, workers: int, number: int, seed: int) -> tuple[Kill, ...]:
    """Draws kills such that each attempt resumes from a later checkpoint than the attempt before it.

    Args:
        workers: Number of workers; the kills are dealt to them equally.

    Returns:
        The kills in the order of their steps.

    Raises:
        UsageError: The run is too short for so many, or makes too few checkpoints.
    """
    between = steps_by_checkpoint(trace)
    if len(between) < number:
        raise UsageError(_too_short(trace, between, number))
    draw = random.Random(seed)
    steps = [draw.choice(between[made]) for made in sorted(draw.sample(sorted(between), number))]
    culprits = [place % workers for place in range(number)]
    draw.shuffle(culprits)
    return tuple(Kill(worker, step) for worker, step in zip(culprits, steps, strict=True))


def steps_by_checkpoint(trace: Trace) -> dict[int, list[int]]:
    """Number of checkpoints made, from 1 -> the steps after which there were that many; without the last step."""
    found: dict[int, list[int]] = {}
    for steps in trace.steps[:-1]:
        if steps.saved:
            found.setdefault(steps.saved, []).append(steps.step)
    return found


def _too_short(trace: Trace, between: dict[int, list[int]], number: int) -> str:
    first = [str(steps[0]) for _, steps in sorted(between.items())]
    places = ", ".join(first[:5]) + (", ..." if len(first) > 5 else "")
    seen = f"{len(between)} (seen by step {places})" if between else "none"
    fewer = f"--kills {len(between)}, or " if between else ""
    return (
        f"The run is too short to be killed {_times(number)}: each attempt must make a checkpoint of its own, so that "
        f"the next begins later. Expected {number} checkpoint(s) before the last step. Received: {seen}, in "
        f"{trace.ended} steps. Give {fewer}more epochs, or checkpoints more often: in a config "
        "--set checkpoint.every_steps=N; docs/checkpoints.md says how a script makes them."
    )


def _times(number: int) -> str:
    return "once" if number == 1 else f"{number} times"


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
