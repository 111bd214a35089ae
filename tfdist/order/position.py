"""Position of a training: its epoch and step."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, order=True)
class Position:
    """The place between two training batches. Of two positions of one run the later one is greater.

    Attributes:
        epoch: The epoch that runs or comes next, from 0.
        step: Batches of it that are done; all of them while its end, with the evaluation, is still to come.

    Raises:
        ValueError: A number is negative.
    """

    epoch: int = 0
    step: int = 0

    def __post_init__(self) -> None:
        if self.epoch < 0 or self.step < 0:
            raise ValueError(f"Expected an epoch and a step of 0 or more. Received: {self.epoch} and {self.step}")

    def total(self, steps_per_epoch: int) -> int:
        """Batches done since the run began."""
        return self.epoch * steps_per_epoch + self.step


START = Position()
"""Before the first batch of a run."""
