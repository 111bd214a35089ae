"""The facts that a loss knows of the call that it is computed in, with code of Keras's in between."""

from __future__ import annotations

import contextvars
import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


class Kind(enum.Enum):
    """The way in which values of a whole batch follow from those of its parts."""

    ROWS = "one value a sample"
    MEAN = "a mean over the samples"
    SUM = "a sum over the samples"


@dataclass(frozen=True)
class Treatment:
    """The treatment of a loss: how a replica's values of it count.

    Attributes:
        gathers: Whether every replica takes the loss of the rows of all replicas.
        kind: What the values are; where they are not known to be one a sample, their shape tells.
        is_known: Whether that is known of Keras or from a trial, rather than declared or assumed.
    """

    gathers: bool = False
    kind: Kind = Kind.MEAN
    is_known: bool = False


@dataclass(frozen=True)
class LossScope:
    """The loss that is being computed.

    Attributes:
        depth: How many losses are called within one another, from those given to `compile` on; None outside of them.
        treatment: How the values of the loss being called count; None outside of a call.
        per_sample: Whether they are counted by the samples of the global batch.
        sums_own: Whether a sum is that of this replica's own samples: a metric or another loss takes it.
        of_weights: Whether the losses that are called are taken of weights, which all replicas have in common.
        teacher: What a teacher gives for the batch, by output; None where the model learns from none.
    """

    depth: int | None = None
    treatment: Treatment | None = None
    per_sample: bool = False
    sums_own: bool = False
    of_weights: bool = False
    teacher: Mapping[str, Any] | None = None


_OUTSIDE = LossScope()

LOSS_SCOPE: contextvars.ContextVar[LossScope] = contextvars.ContextVar("tfdist_loss_scope", default=_OUTSIDE)
