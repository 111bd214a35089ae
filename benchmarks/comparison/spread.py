"""Medians with their range, and ratios round by round, which noise on the machine leaves comparable."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Spread:
    """Several measurements of one thing.

    Attributes:
        median: The median.
        low: The least.
        high: The greatest.
    """

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """The spread of one or more values.

        Raises:
            statistics.StatisticsError: There are none.
        """
        return cls(statistics.median(values), min(values), max(values))

    def __str__(self) -> str:
        return f"{digits(self.median)} ({digits(self.low)} to {digits(self.high)})"


def ratios(first: Sequence[float], second: Sequence[float]) -> list[float]:
    """first / second, round by round; both have been in the same rounds."""
    return [a / b for a, b in zip(first, second, strict=True)]


def digits(value: float) -> str:
    """A number of 0 or more in three digits: `0.0120`, `1.20`, `87.1`, `412`."""
    if value == 0:
        return "0"
    if value < 0.9995:
        return f"{value:#.3g}"
    return f"{value:.{0 if value >= 99.95 else 1 if value >= 9.995 else 2}f}"
