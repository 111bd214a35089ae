"""Bounds within which two ways of making a step may differ by rounding, as moving all numbers a little has shown."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

_BEYOND_ROUNDING = 4.0
"""So many times what moving all numbers a little does to a result is more than rounding does."""

_LEAP = 10.0
"""The limit of a move, in multiples of the step's change: what moves by more is not changed by it, but moved itself."""

_OF_ROUNDING_ALONE = 0.25
"""The limit of a move, as a part of the step's change: what moves by more is changed by rounding alone."""

_ALWAYS = 0.1
"""The limit of a move that comes every time: what moves by so much is nothing but rounding, as the bias of the keys of
an attention layer, and says nothing of others."""

_OF_FEW = 0.05
"""Leaps of a few elements are less of what a step changes in a variable, in the mean over its elements."""


@dataclass(frozen=True)
class Finding:
    """A difference: what differs, and by how much, relative to what the step changes in it."""

    name: str
    difference: float
    bound: float

    def __str__(self) -> str:
        return f"{self.name!r} by {self.difference:.1e} of what the step changes in it"


class RoundingBounds:
    """The bounds of the differences between two ways of making a step, which widen with what rounding is seen to do.

    A number that comes to lie on the other side of a kink (of a ReLU, a maximum), and an update that goes by the sign
    of a gradient, leap by rounding; which of them do is chance. So a variable may leap as far as another one of its
    kind is seen to, but in few of its elements: else a single variable that rounding alone changes, as the bias before
    a normalization, would let pass any fault in all others.

    Args:
        parted: By how much each variable differs, by name.
        spread: The same in the mean over its elements.
        trained: The names of those that are trained; the others are another kind.
        tolerance: What needs no explanation.
    """

    def __init__(
        self, parted: Mapping[str, float], spread: Mapping[str, float], trained: Collection[str], tolerance: float
    ) -> None:
        self._parted = parted
        self._spread = spread
        self._kinds = [[name for name in parted if (name in trained) == weight] for weight in (True, False)]
        self._own = dict.fromkeys(parted, 0.0)
        self._least = dict.fromkeys(parted, float("inf"))
        self._of_kind = dict.fromkeys(parted, 0.0)
        self._of_noise = dict.fromkeys(parted, 0.0)
        self._tolerance = tolerance

    def widen(self, moves: Mapping[str, float]) -> None:
        """Takes notice of what moving all numbers a little has done to each variable."""
        for name in self._parted:
            self._own[name] = max(self._own[name], moves[name])
            self._least[name] = min(self._least[name], moves[name])
        for names in self._kinds:
            leaps = {name: self._own[name] for name in names if self._own[name] < _LEAP}
            now_and_then = [leap for name, leap in leaps.items() if self._least[name] < _ALWAYS]
            self._of_kind.update(dict.fromkeys(names, max(now_and_then, default=0.0)))
            self._of_noise.update(dict.fromkeys(names, max(leaps.values(), default=0.0)))

    @property
    def beyond(self) -> list[Finding]:
        """The findings that differ by more than their bounds."""
        bounds = {name: self._bound(name) for name in self._parted}
        return [
            Finding(name, self._parted[name], bound) for name, bound in bounds.items() if self._parted[name] > bound
        ]

    def _bound(self, name: str) -> float:
        seen = self._own[name]
        if seen > _OF_ROUNDING_ALONE:
            seen = max(seen, self._of_noise[name])
        elif self._spread[name] < _OF_FEW:
            seen = max(seen, self._of_kind[name])
        return max(self._tolerance, _BEYOND_ROUNDING * seen)
