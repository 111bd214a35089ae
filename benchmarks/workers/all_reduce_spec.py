"""What a worker that times all-reduce alone is told, and how it times."""

from __future__ import annotations

import dataclasses
import json
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

_WARM = 3


@dataclass(frozen=True)
class AllReduceSpec:
    """One worker.

    Attributes:
        workers: How many there are.
        sizes: Bytes of a float32 vector, as text -> how often it is summed.
        cores: Worker I runs on the I-th of them, from the start again where there are fewer.
        seconds: How long a wait for the others may take.
        folder: A folder that the workers share.
        index: This one's place, from 0; under tfdist its launcher decides.
    """

    workers: int
    sizes: dict[str, int]
    cores: tuple[int, ...]
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
    seconds = []
    for _ in range(_WARM + times):
        value = prepare()
        begun = time.perf_counter()
        total = reduce(value)
        seconds.append(time.perf_counter() - begun)
        for place in (0, -1):
            if float(total[place]) != expected:
                raise RuntimeError(f"expected sums of {expected:g}. Received: {float(total[place]):g}")
    if not is_all(total, expected):
        raise RuntimeError(f"expected sums of {expected:g}. Received: other numbers, too")
    return statistics.median(seconds[_WARM:])
