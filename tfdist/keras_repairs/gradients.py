"""The one place that reduces gradients: summed over the replicas before anything else is done to them.

Keras clips, checks and accumulates each replica's own gradient and reduces last; a norm is not a sum, so what it then
clips is wrong. Here the optimizer receives the global batch's gradient and every later act is that of one replica.
"""

from __future__ import annotations

import contextvars
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from tfdist.runtime.sums import sum_over_replicas

_reduced: contextvars.ContextVar[bool] = contextvars.ContextVar("tfdist_gradients_reduced", default=False)

Function = Callable[..., Any]


def backend_apply_gradients(original: Function) -> Function:
    """Repairs `TFOptimizer._backend_apply_gradients`: reduces first, then clips, decays and updates."""

    def repaired(self: Any, grads: Sequence[Any], trainable_variables: Sequence[Any]) -> None:
        token = _reduced.set(True)
        try:
            original(self, reduce_gradients(grads), trainable_variables)
        finally:
            _reduced.reset(token)

    return repaired


def all_reduce_sum_gradients(original: Function) -> Function:
    """Repairs `TFOptimizer._all_reduce_sum_gradients`: what is reduced already is not reduced again."""

    def repaired(self: Any, grads_and_vars: Any) -> Any:
        return grads_and_vars if _reduced.get() else original(self, grads_and_vars)

    return repaired


def reduce_gradients(grads: Sequence[Any]) -> list[Any]:
    """Sums gradients over the replicas; outside of a replica (a hand-written loop) they are returned as they are."""
    context = tf.distribute.get_replica_context()
    if context is None or context.num_replicas_in_sync == 1:
        return list(grads)
    present = [g for g in grads if g is not None]
    summed = iter(sum_over_replicas(present))
    return [None if g is None else next(summed) for g in grads]
