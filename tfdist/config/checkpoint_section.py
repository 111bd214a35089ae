"""The `checkpoint` section of a config: when checkpoints are saved, and which are kept."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from tfdist.config.field_errors import FieldError, shown
from tfdist.config.metric_direction import Direction, direction
from tfdist.config.section import Section
from tfdist.config.type_rules import PositiveInt, Rule, Text
from tfdist.url_schemes import fault_of


@dataclass(frozen=True, kw_only=True)
class CheckpointConfig(Section):
    """The times at which a run saves checkpoints, besides the end of every epoch, and the rules for which are kept.

    Attributes:
        every_steps: Save after each multiple of this many steps of the run; null for never.
        every_minutes: Save when the last checkpoint is this many minutes old; null for never.
        keep: How many of the latest checkpoints are kept.
        best: A metric, as in the history; the checkpoint at the end of its best epoch is kept as well. Null for none.
        best_mode: Whether the smallest (min) or the largest (max) value of `best` is the best; auto tells by its name.
        keep_every_steps: Checkpoints after each multiple of this many steps are kept for good; null for none.
        keep_every_epochs: Checkpoints at the end of every this many epochs are kept for good; null for none.
        when_busy: Whether training waits (wait) or passes over a checkpoint within an epoch (skip) while the one before
            is still being written.
        directory: Where checkpoints are written instead of into the run directory: a path on the chief's host,
            s3://bucket/run (with the extra s3) or gs://bucket/run. Of one run only.
    """

    every_steps: PositiveInt | None = 100
    every_minutes: (
        Annotated[float, Rule("a positive number", lambda value: value > 0, {"exclusiveMinimum": 0})] | None
    ) = None
    keep: PositiveInt = 3
    best: Text | None = None
    best_mode: Literal["auto", "min", "max"] = "auto"
    keep_every_steps: PositiveInt | None = None
    keep_every_epochs: PositiveInt | None = None
    when_busy: Literal["wait", "skip"] = "wait"
    directory: Text | None = None

    @property
    def best_direction(self) -> Direction:
        """True if the best value of `best` is the smallest or the largest; `min` without `best`."""
        if self.best_mode != "auto":
            return self.best_mode
        return (self.best and direction(self.best)) or "min"

    def check(self) -> None:
        fault = None if self.directory is None else fault_of(self.directory)
        if fault is not None:
            raise FieldError("directory", fault)
        if self.best_mode != "auto" and self.best is None:
            raise FieldError("best_mode", f"expected the key best beside it. Received: {shown(self.best_mode)} alone")
        if self.best is not None and self.best_mode == "auto" and direction(self.best) is None:
            problem = f"expected min or max, as the name does not tell whether more of {shown(self.best)} is better"
            raise FieldError("best_mode", f'{problem}. Received: "auto"')
        every, kept = self.every_steps, self.keep_every_steps
        if kept is not None and (every is None or kept % every):
            problem = f"expected a multiple of every_steps, which is {shown(every)}, so that there are such checkpoints"
            raise FieldError("keep_every_steps", f"{problem}. Received: {kept}")
