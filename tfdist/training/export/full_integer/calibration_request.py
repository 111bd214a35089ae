"""Request of an export in integers: the samples by which ranges are chosen, and how much worse it may become.

Nothing here loads TensorFlow.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class CalibrationRequest:
    """By what integers are chosen, and what they may cost.

    Attributes:
        section: The section of the data, in JSON's types.
        key: Its dotted key.
        samples: How many samples are read, at most.
        seed: Of their order.
        max_drop: How much worse the metric may be, as `DropBudget.of` reads it.
        metric: The metric to judge by; None for the model's first.
    """

    section: Mapping[str, Any]
    key: str
    samples: int
    seed: int
    max_drop: str
    metric: str | None = None
