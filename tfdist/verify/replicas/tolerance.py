"""Tolerance of a comparison: what rounding alone does to the training at hand, with a margin."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from tfdist.verify.relative_difference import DATA_TOLERANCE

QuantityKind = Literal["data", "loss", "gradient norm", "weights", "metrics", "copies", "steps"]

QUANTITY_KINDS: tuple[QuantityKind, ...] = ("data", "loss", "gradient norm", "weights", "metrics", "copies", "steps")
"""The quantities that are compared, causes before effects. Copies are the replicas' of one weight, within one run."""

FLOAT32 = 1e-5
"""The least relative tolerance: fifty times what rounding did to losses and weights of five models in five steps."""

HALF = 2e-2
"""The same where layers compute in 16 bits; of losses, gradient norms and metrics."""

MARGIN = 10
"""The multiple of the measured effect of rounding that is allowed: another order of the sums is another draw."""

_UNDECIDED = {False: 1e-2, True: 0.2}
"""The most that rounding may explain, in float32 and in 16 bits; beyond it, nothing can be said of a number."""


@dataclass(frozen=True)
class Tolerance:
    """The difference that two numbers may have by rounding alone.

    Attributes:
        least: The least relative difference that is allowed.
        half: Whether layers compute in 16 bits, or workers send gradients so. Then the weights are not judged after the
            first step: the gradients of a small part of the batch are rounded to 16 bits before they are summed.
        measured: (number of the moment, kind, name) -> the relative difference that rounding alone made until then.
    """

    least: float = FLOAT32
    half: bool = False
    measured: Mapping[tuple[int, QuantityKind, str], float] = field(default_factory=dict)

    def compressed(self) -> Tolerance:
        """The same where workers send gradients in 16 bits."""
        return replace(self, least=max(self.least, HALF), half=True)

    def allowed(self, number: int, kind: QuantityKind, name: str) -> float:
        """The largest relative difference of a quantity at moment `number` that is rounding; inf for any."""
        if kind == "steps":
            return 0.0  # a different number of steps is never rounding
        if kind == "data":
            return DATA_TOLERANCE
        if kind == "copies" or (kind == "weights" and number == 0):
            # Copies of one variable, and weights that nothing has been added to yet, have not been rounded twice.
            return min(self.least, FLOAT32)
        if kind == "weights" and self.half:
            return math.inf
        by_rounding = MARGIN * self.measured.get((number, kind, name), 0.0)
        return math.inf if by_rounding > _UNDECIDED[self.half] else max(self.least, by_rounding)
