"""What a pruning leaves out, weights, a pattern such as 2:4 or whole channels, and how much after which step."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Self

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


UNSTRUCTURED, CHANNELS = "unstructured", "channels"

MOST_OF_PATTERN = 64
"""The longest pattern: beyond it, single weights are as good."""

_PATTERN = re.compile(r"(\d{1,4}):(\d{1,4})")
_EXPECTED = "Expected unstructured, channels, or a pattern N:M such as 2:4, where N of each M weights stay."


@dataclass(frozen=True)
class Structure:
    """The structure of a pruning: what is pruned together.

    Attributes:
        name: `unstructured`, `channels` or `N:M`.
        kept: Of a pattern N:M the weights that stay of each `group`, N; 0 otherwise.
        group: Of a pattern M, the weights along the inputs of a layer; 0 otherwise.
    """

    name: str
    kept: int = 0
    group: int = 0

    @classmethod
    def of(cls, name: str) -> Self:
        """The structure that a user names.

        Raises:
            UsageError: There is none of that name.
        """
        if name in (UNSTRUCTURED, CHANNELS):
            return cls(name)
        found = _PATTERN.fullmatch(name) if isinstance(name, str) else None
        if found is None:
            received = safe_repr(name)
            raise UsageError(f"There is no structure {received} of a pruning. {_EXPECTED} Received: {received}")
        kept, group = int(found[1]), int(found[2])
        if not 0 < kept < group <= MOST_OF_PATTERN:
            raise UsageError(
                f"The pattern {name} prunes nothing, everything, or is too long. Expected N:M with 0 < N < M <= "
                f"{MOST_OF_PATTERN}, such as 2:4. Received: {name}"
            )
        return cls(name, kept, group)

    @property
    def is_pattern(self) -> bool:
        """True if it is N:M."""
        return self.group > 0

    def sparsity(self, asked: float | None) -> float:
        """The share of the weights, or of the channels, that is pruned in the end.

        Args:
            asked: What the user wants; None for what a pattern says itself.

        Raises:
            UsageError: It is no share, or not the pattern's.
        """
        own = 1 - self.kept / self.group if self.is_pattern else None
        if asked is None:
            if own is None:
                raise UsageError(
                    f"The structure {self.name} needs a sparsity: the share that is pruned. Expected a number between "
                    "0 and 1, such as 0.8. Received: none"
                )
            return own
        if isinstance(asked, bool) or not isinstance(asked, int | float) or not 0 < asked < 1:
            hint = f" For {asked:g} % write {asked / 100:g}." if _is_percentage(asked) else ""
            raise UsageError(
                f"A sparsity is the share that is pruned. Expected a number between 0 and 1, such as 0.8.{hint} "
                f"Received: sparsity={safe_repr(asked)}"
            )
        if own is not None and abs(asked - own) > 1e-9:
            raise UsageError(
                f"The pattern {self.name} prunes {own:g} of the weights, and nothing else. Expected sparsity={own:g}, "
                f"or none. Received: sparsity={safe_repr(asked)}"
            )
        return float(asked)


def _is_percentage(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 1 < value < 100
