"""What a loss knows of the call that it is computed in, with code of Keras's and the user's between the two."""

from __future__ import annotations

import contextvars
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tfdist.keras_repairs.coupling.loss_treatment import Treatment


@dataclass(frozen=True)
class LossScope:
    """The loss that is being computed.

    Attributes:
        depth: How many losses are called within one another, from those given to `compile` on; None outside of them.
        treatment: How the values of the loss being called count; None outside of a call.
        per_sample: Whether they are counted by the samples of the global batch.
        teacher: What a teacher gives for the batch, by output; None where the model learns from none.
    """

    depth: int | None = None
    treatment: Treatment | None = None
    per_sample: bool = False
    teacher: Mapping[str, Any] | None = None


_OUTSIDE = LossScope()

LOSS_SCOPE: contextvars.ContextVar[LossScope] = contextvars.ContextVar("tfdist_loss_scope", default=_OUTSIDE)
