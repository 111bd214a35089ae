"""The facts that a metric knows of the call that it is updated or read in, with code of Keras's in between."""

from __future__ import annotations

import contextvars
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass
class TrialPart:
    """The part of a batch with which a metric is being tried out.

    Attributes:
        samples: How many it has.
        share: By how much a scalar of it counts; None for as it is.
        has_scalars: Whether the metric took the mean or the sum of something that is not one value a sample.
        has_vectors: Whether that was a vector.
    """

    samples: int
    share: float | None
    has_scalars: bool = False
    has_vectors: bool = False

    def takes_for_scalar(self, shape: Sequence[int | None], *, is_function: bool) -> bool:
        """Notes the shape of what a metric takes the mean or the sum of; whether that is not one value a sample."""
        is_vector = is_function and len(shape) > 0 and shape[0] not in (None, self.samples)
        self.has_vectors |= is_vector
        self.has_scalars |= is_vector or len(shape) == 0
        return is_vector or len(shape) == 0


@dataclass(frozen=True)
class MetricScope:
    """The metric whose code runs.

    Attributes:
        is_known: Whether it is updated and known to add up or to be gathered; what it updates is a part of it.
        is_updated: Whether it is updated.
        gives_result: Whether it computes a result that is noted; those of its parts are its own matter.
        part: The part of a batch with which it is being tried out; None outside of a trial.
    """

    is_known: bool = False
    is_updated: bool = False
    gives_result: bool = False
    part: TrialPart | None = None


_OUTSIDE = MetricScope()

METRIC_SCOPE: contextvars.ContextVar[MetricScope] = contextvars.ContextVar("tfdist_metric_scope", default=_OUTSIDE)
