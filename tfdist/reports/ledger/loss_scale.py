"""Scale of a chart's losses: from a value to a height, with round numbers to mark."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

_LOGARITHMIC_FROM = 50.0
"""The ratio of the largest and the smallest loss above which a linear scale hides the small ones."""
_INTERVALS = 5
"""Between marks, at most."""
_GREATEST_POWER = 308
"""Of ten that a float holds."""


@dataclass(frozen=True)
class LossScale:
    """A scale.

    Attributes:
        low: The smallest loss.
        high: The largest loss; equal to `low` where all are.
        is_logarithmic: Whether equal heights are equal ratios.
    """

    low: float
    high: float
    is_logarithmic: bool

    @classmethod
    def of(cls, losses: Sequence[float]) -> LossScale:
        """The scale of one or more losses, which are finite."""
        low, high = min(losses), max(losses)
        return cls(low, high, low > 0 and high / low > _LOGARITHMIC_FROM)

    def height(self, loss: float) -> float:
        """Where a loss is between the smallest (0) and the largest (1); the middle where all are equal."""
        low, high = self._scaled(self.low), self._scaled(self.high)
        return (self._scaled(loss) - low) / (high - low) if high > low else 0.5

    def marks(self) -> list[float]:
        """Round numbers from the smallest to the largest loss, a few; the loss itself where all are equal."""
        if self.high <= self.low:
            return [self.low]
        return self._logarithmic_marks() if self.is_logarithmic else self._linear_marks()

    def _scaled(self, loss: float) -> float:
        # Halved: the difference of two floats may be beyond every float.
        return math.log10(loss) if self.is_logarithmic else loss / 2

    def _linear_marks(self) -> list[float]:
        step = _round_step((self.high / 2 - self.low / 2) / (_INTERVALS / 2))
        if not step:
            return [self.low, self.high]
        first = math.ceil(self.low / step)
        marks = ((first + number) * step for number in range(_INTERVALS + 1))
        return [mark for mark in marks if self.low <= mark <= self.high]

    def _logarithmic_marks(self) -> list[float]:
        first, last = math.floor(math.log10(self.low)), math.ceil(math.log10(self.high))
        every = max(1, math.ceil((last - first) / _INTERVALS))
        powers = range(first, min(last, _GREATEST_POWER) + 1, every)
        return [mark for power in powers if self.low <= (mark := 10.0**power) <= self.high]


def _round_step(least: float) -> float:
    """The smallest of 1, 2, 5, 10, 20, ... and their tenths that is not smaller."""
    if least < 1e-300:
        return 0.0
    power = 10.0 ** math.floor(math.log10(least))
    return next(factor * power for factor in (1, 2, 5, 10, 20) if factor * power >= least)
