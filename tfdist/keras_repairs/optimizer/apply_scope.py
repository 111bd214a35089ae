"""The scope in which an optimizer is given gradients, for its methods that Keras calls and for optimizers inside it."""

from __future__ import annotations

import contextvars
from dataclasses import dataclass

import tensorflow as tf


@dataclass(frozen=True)
class ApplyScope:
    """An application of gradients.

    Attributes:
        is_inside: Whether an optimizer applies gradients; one that is called then is inside of another one.
        are_sums: Whether the gradients that optimizers are given now are summed over the replicas already.
        is_by_one: Whether a replica that runs a whole step alone accumulates as Keras does, full sums.
        finite: Whether the gradients are finite on all replicas; None where it is not known.
    """

    is_inside: bool = False
    are_sums: bool = False
    is_by_one: bool = False
    finite: tf.Tensor | None = None


_OUTSIDE = ApplyScope()

APPLY_SCOPE: contextvars.ContextVar[ApplyScope] = contextvars.ContextVar("tfdist_apply_scope", default=_OUTSIDE)
