"""Which workers of a run are killed at which moments of which of its attempts: drawn from a seed, told in a file."""

from __future__ import annotations

import dataclasses
import json
import os
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

VARIABLE = "TFDIST_TEST_KILLS"
"""Names the file with the plan, for the workers."""

MOMENTS = ("step", "save", "restore", "evaluation", "step", "begin", "both", "save", "build", "evaluation")
"""One kill of each, over and over. `both` is a step in which both workers are killed."""

VALIDATION_STEPS = 7
_LEAST_STEPS, _MOST_STEPS = 6, 30
_SAVE_CALLS, _END_CALLS = 8, 4


@dataclass(frozen=True)
class Kill:
    """One kill, which ends one attempt.

    Attributes:
        moment: `begin`, once the processes are there; `build` and `restore` of the model; within a `step`, or a step of
            an `evaluation`; between two calls that bring a checkpoint to the disk (`save`), or the final model (`end`).
        at: Of the steps or calls in the attempt, the how manieth; counted from the second checkpoint on for `save`. A
            `step` waits until the attempt has made a checkpoint.
        watcher: The worker in which the moment comes.
        victims: The workers that are killed then.
    """

    moment: str
    at: int
    watcher: int
    victims: tuple[int, ...]

    @property
    def most_steps(self) -> int:
        """Steps of training that the attempt may take until then, at most."""
        return {"step": self.at + 20, "evaluation": 60, "save": 30}.get(self.moment, 0)


def draw_plan(number: int, seed: int) -> tuple[Kill, ...]:
    """Kills of a run of two workers: the first once there is a checkpoint, of ten or more the last as the run ends."""
    draw = random.Random(seed)
    moments = [MOMENTS[place % len(MOMENTS)] for place in range(number)]
    tail = moments[1:]
    draw.shuffle(tail)
    if number >= len(MOMENTS):
        tail[-1] = "end"
    return tuple(_draw(moment, draw) for moment in [moments[0], *tail])


def _draw(moment: str, draw: random.Random) -> Kill:
    victims = draw.choice([(0,), (1,), (0, 1)])
    if moment == "save":
        return Kill(moment, draw.randint(1, _SAVE_CALLS), 0, victims)
    if moment == "end":
        # The other worker is done by then, and may die.
        return Kill(moment, draw.randint(1, _END_CALLS), 0, (0,))
    if moment == "evaluation":
        # In the second that the attempt comes to, so that there is an epoch between.
        return Kill(moment, VALIDATION_STEPS + draw.randint(1, VALIDATION_STEPS), draw.randrange(2), victims)
    if moment in ("step", "both"):
        victims = (0, 1) if moment == "both" else draw.choice([(0,), (1,)])
        return Kill("step", draw.randint(_LEAST_STEPS, _MOST_STEPS), draw.randrange(2), victims)
    return Kill(moment, 1, draw.randrange(2), victims)


def write_plan(path: Path, plan: Sequence[Kill]) -> dict[str, str]:
    """Writes a plan, of which the kill number n is the end of attempt n; returns what the environment must hold."""
    path.write_text(json.dumps([dataclasses.asdict(kill) for kill in plan]))
    return {VARIABLE: str(path)}


def planned(attempt: int) -> Kill | None:
    """The kill of an attempt, by the file that the environment names; None where it is left alone."""
    kills = json.loads(Path(os.environ[VARIABLE]).read_text())
    if attempt >= len(kills):
        return None
    return Kill(**{**kills[attempt], "victims": tuple(kills[attempt]["victims"])})
