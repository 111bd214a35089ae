"""Schedule of a pruning: how sparse the model is to be after how many steps."""

from __future__ import annotations

from dataclasses import dataclass

from tfdist.errors import UsageError
from tfdist.text import safe_repr

SCHEDULES = ("polynomial", "constant")


@dataclass(frozen=True)
class SparsitySchedule:
    """The sparsity after each number of steps.

    The polynomial schedule is that of Zhu and Gupta, "To prune, or not to prune" (2017), equation 1: from `initial`
    at `begin` to `sparsity` at `end`, the most of it at first. A constant one prunes once, at `begin`.

    Attributes:
        sparsity: The share that is pruned in the end.
        begin: After how many steps pruning begins.
        end: After how many steps it is over.
        every: Steps from one change of the masks to the next.
        initial: The share that is pruned at `begin`.
        power: The exponent of the polynomial.
        kind: `polynomial` or `constant`.
    """

    sparsity: float
    begin: int
    end: int
    every: int
    initial: float = 0.0
    power: float = 3.0
    kind: str = "polynomial"

    def __post_init__(self) -> None:
        if self.kind not in SCHEDULES:
            raise UsageError(
                f"There is no schedule {safe_repr(self.kind)} of a pruning. Expected one of {', '.join(SCHEDULES)}. "
                f"Received: schedule={safe_repr(self.kind)}"
            )
        _check_whole("begin", self.begin, 0)
        _check_whole("end", self.end, 0)
        _check_whole("every", self.every, 1)
        if self.end < self.begin:
            raise UsageError(
                f"A pruning ends after it begins. Expected end >= begin. Received: begin={self.begin}, end={self.end}"
            )
        if not 0 <= self.initial <= self.sparsity:
            raise UsageError(
                f"A pruning begins at an initial sparsity from 0 to the last one, {self.sparsity:g}. Received: "
                f"initial_sparsity={safe_repr(self.initial)}"
            )
        if not self.power > 0:
            raise UsageError(f"Expected a power above 0, such as 3. Received: power={safe_repr(self.power)}")

    def last_change(self, step: int) -> int | None:
        """The last step up to `step` after which the masks change; None before the first."""
        if step < self.begin:
            return None
        if self.kind == "constant":
            return self.begin
        if step >= self.end:
            return self.end
        return step - (step - self.begin) % self.every

    def next_change(self, step: int) -> int | None:
        """The first step beyond `step` after which the masks change; None where there is none."""
        if step < self.begin:
            return self.begin
        if self.kind == "constant" or step >= self.end:
            return None
        return min(self.end, step - (step - self.begin) % self.every + self.every)

    def at(self, change: int) -> float:
        """The sparsity from a change on, which `last_change` and `next_change` say."""
        if self.kind == "constant" or change >= self.end:
            return self.sparsity
        left = 1 - (change - self.begin) / (self.end - self.begin)
        return self.sparsity + (self.initial - self.sparsity) * left**self.power


def _check_whole(name: str, value: object, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise UsageError(f"Expected a whole number of steps, {least} or more. Received: {name}={safe_repr(value)}")
