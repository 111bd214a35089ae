"""Decides when a checkpoint is due. Pure: numbers in, numbers out."""

from __future__ import annotations

import math
from dataclasses import dataclass

MOST_STEPS_BETWEEN_LOOKS = 1000
"""Steps between looks at the clock, which bounds how late a checkpoint is where steps suddenly become slower."""


@dataclass(frozen=True)
class SavePolicy:
    """The times at which a run saves, besides the end of every epoch.

    Attributes:
        every_steps: After each multiple of so many steps of the run; None for never.
        every_seconds: When the last checkpoint is so many seconds old; None for never.

    Raises:
        ValueError: A number is not positive.
    """

    every_steps: int | None = None
    every_seconds: float | None = None

    def __post_init__(self) -> None:
        if min(self.every_steps or 1, self.every_seconds or 1) <= 0 or 0 in (self.every_steps, self.every_seconds):
            raise ValueError(f"Expected positive numbers. Received: {self.every_steps} and {self.every_seconds}")

    def is_due_at(self, step: int) -> bool:
        """Returns whether the number of steps alone makes one due, when `step` steps of the run are done."""
        return self.every_steps is not None and step % self.every_steps == 0

    def is_due_after(self, seconds: float) -> bool:
        """Returns whether the clock makes one due, so many seconds after the last."""
        return self.every_seconds is not None and seconds >= self.every_seconds

    def steps_until_due(self, step: int) -> float:
        """In how many steps, at least 1, `is_due_at` comes true after `step`; infinity for never."""
        return math.inf if self.every_steps is None else self.every_steps - step % self.every_steps

    def steps_until_look(self, seconds: float, seconds_per_step: float | None) -> float:
        """In how many steps the workers ask the chief for its clock; infinity where `every_seconds` is None.

        The next look is after half of the remaining time, so that looks are few and steps may slow down meanwhile.

        Args:
            seconds: Since the last checkpoint.
            seconds_per_step: The measured time of a step; None while it is not known.
        """
        if self.every_seconds is None:
            return math.inf
        if seconds_per_step is None:
            return 1
        half = (self.every_seconds - seconds) / 2
        return max(1, min(MOST_STEPS_BETWEEN_LOOKS, int(half / max(seconds_per_step, 1e-6))))
