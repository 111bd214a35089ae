"""Measures how long a call takes for a sample: one at a time, and in batches."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from numpy.typing import NDArray

Arrays: TypeAlias = Mapping[str, NDArray]
"""Name -> [samples, ...]."""

_SECONDS = 1.0
_LEAST_CALLS, _MOST_CALLS = 5, 300


@dataclass(frozen=True)
class CallTimes:
    """Seconds a sample, the median of many calls.

    Attributes:
        one: One sample at a time; None where the batch size is fixed.
        batch: In batches of `batch_size`.
        batch_size: Samples of a batch.
    """

    one: float | None
    batch: float
    batch_size: int


def take_times(call: Callable[[Arrays], Any], inputs: Arrays, batch_size: int, *, is_fixed: bool) -> CallTimes:
    """Measures a call, for about a second each way.

    Args:
        call: Takes a batch by name.
        inputs: At least `batch_size` samples.
        batch_size: Samples of a batch.
        is_fixed: Whether it takes no other number of samples.
    """
    one = None if is_fixed or batch_size == 1 else _median(lambda: call(rows(inputs, 0, 1)))
    batch = _median(lambda: call(rows(inputs, 0, batch_size))) / batch_size
    return CallTimes(batch if batch_size == 1 and not is_fixed else one, batch, batch_size)


def rows(arrays: Arrays, begin: int, end: int) -> dict[str, NDArray]:
    """The samples from `begin` up to `end` of each array."""
    return {name: array[begin:end] for name, array in arrays.items()}


def batches_of(inputs: Arrays, batch_size: int) -> Sequence[dict[str, NDArray]]:
    """All samples in batches; the last may be smaller."""
    samples = len(next(iter(inputs.values())))
    return [rows(inputs, begin, begin + batch_size) for begin in range(0, samples, batch_size)]


def _median(call: Callable[[], Any]) -> float:
    call()  # what is set up by the first call of a size is no part of it
    taken: list[float] = []
    end = time.perf_counter() + _SECONDS
    while len(taken) < _LEAST_CALLS or (time.perf_counter() < end and len(taken) < _MOST_CALLS):
        begun = time.perf_counter()
        call()
        taken.append(time.perf_counter() - begun)
    return statistics.median(taken)
