"""What a worker that times all-reduce alone is told, and how it times."""

from __future__ import annotations

import ctypes
import dataclasses
import json
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from benchmarks.workers.turn_taking import TurnTaking

_WARM = 1
"""Sums before those that count: the first also waits until it is the job's turn."""


@dataclass(frozen=True)
class AllReduceSpec:
    """One worker.

    Attributes:
        workers: How many there are.
        sizes: Bytes of a float32 vector, as text -> how often it is summed.
        cores: Worker I runs on the I-th of them, from the start again where there are fewer.
        rounds: How often all of that is done.
        seconds: How long a wait for the others, or for the job's turn, may take.
        folder: A folder that the workers share, with the pipes of `turn_taking`.
        index: This one's place, from 0; under tfdist its launcher decides.
    """

    workers: int
    sizes: dict[str, int]
    cores: tuple[int, ...]
    rounds: int
    seconds: float
    folder: str
    index: int = 0

    def argument(self) -> str:
        """The program's one argument."""
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def parse(cls, argument: str) -> AllReduceSpec:
        """What `argument` made."""
        fields = json.loads(argument)
        return cls(**{**fields, "cores": tuple(fields["cores"])})


def run_rounds(spec: AllReduceSpec, speaks: bool, time_sums: Callable[[dict[str, int]], dict[str, float]]) -> None:
    """Sums once to be ready, then in each of the job's turns; the worker that speaks for the job says the times.

    The others start the first sum of a turn at once, and wait in it.

    Args:
        spec: What is summed.
        speaks: Whether this worker speaks for the job; one does.
        time_sums: Sums vectors of these sizes as often, over all workers, and returns the seconds of the slowest.
    """
    turns = TurnTaking(spec.folder, spec.seconds) if speaks else None
    time_sums(dict.fromkeys(spec.sizes, 1))
    give_memory_back()
    if turns is not None:
        turns.say()
    for _ in range(spec.rounds):
        if turns is not None:
            turns.await_turn()
        slowest = time_sums(spec.sizes)
        give_memory_back()
        if turns is not None:
            turns.say(seconds=slowest)


def give_memory_back() -> None:
    """Gives the system the memory that was freed, so that other jobs can have it until this one's next turn."""
    ctypes.CDLL(None).malloc_trim(0)


def timed(
    prepare: Callable[[], Any],
    reduce: Callable[[Any], Any],
    times: int,
    expected: float,
    is_all: Callable[[Any, float], bool],
) -> float:
    """The median of the seconds that a sum takes, without those before it.

    Args:
        prepare: Makes what is summed, of ones.
        reduce: Sums it over the workers, and returns when the sum is there.
        times: How often.
        expected: Each number of the sum.
        is_all: Whether all numbers of a sum are one. Asked of the last sum alone, as it takes long; the ends of the
            others are looked at.

    Raises:
        RuntimeError: A sum is another.
    """
    seconds: list[float] = []
    total: Any = None
    for _ in range(_WARM + times):
        value, total = prepare(), None  # a step gives the memory of its sums back before the next needs it
        begun = time.perf_counter()
        total = reduce(value)
        seconds.append(time.perf_counter() - begun)
        for place in (0, -1):
            if float(total[place]) != expected:
                raise RuntimeError(f"expected sums of {expected:g}. Received: {float(total[place]):g}")
    if not is_all(total, expected):
        raise RuntimeError(f"expected sums of {expected:g}. Received: other numbers, too")
    return statistics.median(seconds[_WARM:])
