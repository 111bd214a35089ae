"""What one process of a loop is told by its command line, and what it tells; the same for TensorFlow and PyTorch."""

from __future__ import annotations

import dataclasses
import json
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

WARM_STEPS = 10
"""Steps before those that are timed: they trace, compile, and fill caches."""


@dataclass(frozen=True)
class LoopSpec:
    """One worker of a loop.

    Attributes:
        model: A name of `model_sizes.SIZES`.
        workers: How many there are.
        index: This one's place, from 0.
        steps: Steps that are timed.
        batch: Samples of a global batch, a multiple of `workers`.
        seconds: How long a wait for the others may take.
        folder: A folder that the workers share.
        apart: Whether the workers do not communicate.
        in_step: Whether workers apart wait for each other after every step.
    """

    model: str
    workers: int
    index: int
    steps: int
    batch: int
    seconds: float
    folder: str
    apart: bool = False
    in_step: bool = False

    def argument(self) -> str:
        """The program's one argument."""
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def parse(cls, argument: str) -> LoopSpec:
        """What `argument` made."""
        return cls(**json.loads(argument))

    @property
    def share(self) -> int:
        """Samples of this worker in each global batch."""
        return self.batch // self.workers

    def meet(self) -> None:
        """Returns when all workers have called it.

        Raises:
            TimeoutError: Some did not.
        """
        deadline, folder = time.monotonic() + self.seconds, Path(self.folder)
        (folder / f"ready-{self.index}").touch()
        while absent := [index for index in range(self.workers) if not (folder / f"ready-{index}").exists()]:
            if time.monotonic() > deadline:
                raise TimeoutError(f"workers {absent} were not ready within {self.seconds:g} s")
            time.sleep(0.002)


def process_start() -> float:
    """When this process was started, in seconds since 1970, to a hundredth."""
    ticks = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
    return time.time() - (time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK"))


class Moments:
    """When each part of a start was done, in seconds since 1970: `imported`, `met`, `built`, `stepped`, `again`."""

    def __init__(self) -> None:
        self.times = {"process": process_start()}

    def note(self, name: str) -> None:
        """The part is done, now."""
        self.times[name] = time.time()


def say(**facts: Any) -> None:
    """Prints the line of JSON that a benchmark reads."""
    print(json.dumps(facts), flush=True)
