"""The facts known of code that is tried out, and the notes on it where nothing is written, updated or applied."""

from __future__ import annotations

import contextvars
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tfdist.keras_repairs.coupling.trials.split_comparison import ROWS


@dataclass(frozen=True)
class Write:
    """The values that were to be written at once.

    Attributes:
        what: By what, as the user calls it.
        values: Arrays and ragged tensors, and what else was written, as it is; None where nobody knows a value yet.
    """

    what: str
    values: Sequence[Any]


@dataclass(frozen=True)
class Update:
    """The update that an optimizer would have applied.

    Attributes:
        optimizer: Its name.
        gradients: One for each of `variables`: a tensor, slices or None.
        variables: Their paths.
    """

    optimizer: str
    gradients: Sequence[Any]
    variables: Sequence[str]


@dataclass(frozen=True)
class Reading:
    """The values with which a mean or a sum was updated.

    Attributes:
        metric: Its name.
        key: Its id.
        values: A tensor or a number.
        weight: Likewise, or None.
        counted: The values and weights with which it counts them: by the samples of a replica where they are not those
            of single samples.
        is_of_all: Whether it is of all rows, also where the step has a part of them.
    """

    metric: str
    key: int
    values: Any
    weight: Any
    counted: tuple[Any, Any]
    is_of_all: bool


@dataclass
class Capture:
    """The updates and readings that were captured so far, in their order.

    Attributes:
        scale: By how much gradients are larger than they are, so that code which clips them does.
        updates: What optimizers get.
        readings: What means and sums of metrics get.
    """

    scale: float
    updates: list[Update] = field(default_factory=list)
    readings: list[Reading] = field(default_factory=list)


@dataclass(frozen=True)
class TrialScope:
    """The code that is tried out.

    Attributes:
        rows: How many rows it has: those of the whole batch, or of a part.
        total: How many the whole batch has.
        is_of_replicas: Whether it is tried out as on one replica and as on two.
        recording: The `Recording` of the layer that is tried out.
        capture: What a step would give to optimizers and metrics.
        captures_readings: Whether what it gives to metrics is captured; a metric is tried out by itself.
        writes: What it would write.
    """

    rows: int = ROWS
    total: int = ROWS
    is_of_replicas: bool = False
    recording: object | None = None
    capture: Capture | None = None
    captures_readings: bool = True
    writes: list[Write] | None = None


_OUTSIDE = TrialScope()

TRIAL_SCOPE: contextvars.ContextVar[TrialScope] = contextvars.ContextVar("tfdist_trial_scope", default=_OUTSIDE)
