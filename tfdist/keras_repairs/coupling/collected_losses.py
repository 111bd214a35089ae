"""Collects what layers give to `add_loss` where it goes to no step: while they run on all rows, or are tried out."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import tensorflow as tf

from tfdist.keras_repairs.base.attached_value import AttachedValue
from tfdist.keras_repairs.base.context_variables import changing
from tfdist.keras_repairs.coupling.call_scope import CALL_SCOPE, Losses

_IS_MEAN: AttachedValue[bool] = AttachedValue("is_mean")


@contextlib.contextmanager
def collecting() -> Iterator[Losses]:
    """Collects what the layers called inside add."""
    losses: Losses = {}
    with changing(CALL_SCOPE, losses=losses):
        yield losses


def collected() -> Losses | None:
    """Returns where losses are collected now; None where a step has them."""
    return CALL_SCOPE.get().losses


def marked_as_mean(term: tf.Tensor) -> tf.Tensor:
    """`term`, a scalar, which is known to be a mean over samples."""
    _IS_MEAN.set(term, True)
    return term


def is_mean(term: Any) -> bool:
    """Returns whether a term is known to be a mean over samples."""
    return bool(_IS_MEAN.get(term))
