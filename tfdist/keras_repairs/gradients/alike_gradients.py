"""Gradients of steps that run whole: every replica computes them of all samples, and all take those of the first one.

Kernels of several threads add up in another order each time. What comes of it is small, but Adam makes a full step of a
gradient that is zero but for rounding, such as that of the bias of the keys of an attention layer, and a deep network
blows it up from step to step: the copies of a variable would part.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from tfdist.keras_repairs.base.context_variables import changing
from tfdist.keras_repairs.base.replica_copies import is_first_replica
from tfdist.keras_repairs.base.replica_step import REPLICA_SCOPE
from tfdist.keras_repairs.gradients.gradient_sums import Gradient
from tfdist.runtime.transport import replica_sums

_EAGERLY = "eagerly"


def of_first_replica() -> contextlib.AbstractContextManager[None]:
    """Inside, in a step that all replicas run whole, optimizers are given the gradients of the first one."""
    return changing(REPLICA_SCOPE, graph_of_global_batch_step=_here())


def alike(grads: Sequence[Gradient]) -> list[Gradient]:
    """The gradients of the first replica, where all of them run this step; those of this one elsewhere.

    Elsewhere is also a branch or a function inside of the step, where TensorFlow lets no replicas meet.
    """
    if REPLICA_SCOPE.get().graph_of_global_batch_step is not _here():
        return list(grads)
    given = [gradient for gradient in grads if gradient is not None]
    own = given if is_first_replica() else [_without_values(gradient) for gradient in given]
    rest = iter(replica_sums.sum_over_replicas(own)) if given else iter(())
    return [None if gradient is None else next(rest) for gradient in grads]


def _without_values(gradient: tf.Tensor | tf.IndexedSlices) -> tf.Tensor | tf.IndexedSlices:
    if isinstance(gradient, tf.IndexedSlices):
        return tf.IndexedSlices(tf.zeros_like(gradient.values), gradient.indices, gradient.dense_shape)
    return tf.zeros_like(gradient)


def _here() -> Any:
    return _EAGERLY if tf.executing_eagerly() else tf.compat.v1.get_default_graph()
