"""Policies of checkpoints: when one is due, and which are kept. Pure: they remove nothing themselves."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tfdist.config.training_sections import CheckpointConfig

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


@dataclass(frozen=True)
class CheckpointInfo:
    """The facts that a retention policy needs to know of a checkpoint.

    Attributes:
        step: Steps of the run that were done.
        number: Its number among those of the same step, from 0.
        epochs: Epochs that were done, where it was made at the end of one; None within an epoch.
        metrics: The metrics of the epoch at whose end it was made, by name; empty within an epoch.
    """

    step: int
    number: int = 0
    epochs: int | None = None
    metrics: Mapping[str, float] = field(default_factory=dict, compare=False)

    @property
    def key(self) -> tuple[int, int]:
        """Step and number, which identify it. A later one is greater."""
        return self.step, self.number


@dataclass(frozen=True)
class RetentionPolicy:
    """The rules for which checkpoints of a run are kept. A checkpoint that any of the rules keeps is kept.

    Attributes:
        latest: How many of the latest are kept, at least 1.
        best: The metric whose best epoch is kept; None for none.
        larger_is_better: Whether the largest value of the metric is the best.
        every_steps: Those after each multiple of so many steps are kept for good; None for none.
        every_epochs: Those at the end of every so many epochs are kept for good; None for none.

    Raises:
        ValueError: A number is not positive.
    """

    latest: int = 3
    best: str | None = None
    larger_is_better: bool = False
    every_steps: int | None = None
    every_epochs: int | None = None

    def __post_init__(self) -> None:
        for number in (self.latest, self.every_steps, self.every_epochs):
            if number is not None and number < 1:
                raise ValueError(f"Expected numbers of 1 or more. Received: {self}")

    @classmethod
    def of(cls, section: CheckpointConfig) -> RetentionPolicy:
        """The policy of a config."""
        return cls(
            latest=section.keep,
            best=section.best,
            larger_is_better=section.best_direction == "max",
            every_steps=section.keep_every_steps,
            every_epochs=section.keep_every_epochs,
        )

    def obsolete(self, saved: Sequence[CheckpointInfo], newest: CheckpointInfo) -> list[CheckpointInfo]:
        """The checkpoints that are not kept once `newest` is whole.

        Checkpoints of later steps are from an earlier attempt that the run did not resume from, and of several of one
        step only the last counts.

        Args:
            saved: All checkpoints, with `newest`.
            newest: The one just made.
        """
        past = sorted((entry for entry in saved if entry.step < newest.step), key=lambda entry: entry.key, reverse=True)
        standing = [newest, *_last_of_each_step(past)]
        kept = {entry.key for entry in standing[: self.latest]} | self.kept_for_good(standing)
        return [entry for entry in saved if entry.key not in kept]

    def kept_for_good(self, saved: Sequence[CheckpointInfo]) -> set[tuple[int, int]]:
        """The keys of those that are kept however many come later."""
        best = self.best_of(saved)
        return {entry.key for entry in saved if self._keeps_for_good(entry) or entry is best}

    def best_of(self, saved: Sequence[CheckpointInfo]) -> CheckpointInfo | None:
        """The best by the metric, the earliest of equal ones; None where no metric is given or no checkpoint has it."""
        if self.best is None:
            return None
        measured = [entry for entry in saved if not math.isnan(entry.metrics.get(self.best, math.nan))]
        sign = -1.0 if self.larger_is_better else 1.0
        return min(measured, key=lambda entry: (sign * entry.metrics[str(self.best)], entry.key), default=None)

    def _keeps_for_good(self, entry: CheckpointInfo) -> bool:
        by_step = self.every_steps is not None and entry.step % self.every_steps == 0
        if by_step or self.every_epochs is None or not entry.epochs:
            return by_step
        return entry.epochs % self.every_epochs == 0


def _last_of_each_step(latest_first: Sequence[CheckpointInfo]) -> Iterator[CheckpointInfo]:
    step = None
    for entry in latest_first:
        if entry.step != step:
            yield entry
        step = entry.step
