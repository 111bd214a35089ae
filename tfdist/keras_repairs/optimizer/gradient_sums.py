"""Sums of the replicas' gradients, each weighted by its samples where the loss is a mean over them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import tensorflow as tf

from tfdist.keras_repairs.base.replica_step import ReplicaStep, current_step, note_gathering
from tfdist.runtime.transport import replica_sums

Gradient: TypeAlias = tf.Tensor | tf.IndexedSlices | None


def reduce_gradients(grads: Sequence[Gradient]) -> list[Gradient]:
    """Sums gradients over the replicas, in the context of a replica; sparse ones stay sparse, None stays None."""
    if any(isinstance(gradient, tf.IndexedSlices) for gradient in grads):
        note_gathering()
    summed = iter(replica_sums.sum_gradients([g for g in grads if g is not None]))
    return [None if g is None else _as_distinct(next(summed), as_in=g) for g in grads]


def weighted(grads: list[Gradient]) -> list[Gradient]:
    """The gradients, weighted by samples in the user's own step, whose loss is taken for a mean over them.

    In Keras's step the loss is the replica's summand already. The gradients of a replica without samples are left out.
    """
    step = current_step()
    if step is None:
        return grads
    values = [g.values if isinstance(g, tf.IndexedSlices) else g for g in grads if g is not None]

    def of_samples() -> list[tf.Tensor]:
        weights = [step.weight(value.dtype) for value in values]
        return [
            value if weight is None else value * weight for value, weight in zip(values, weights, strict=True)
        ]

    if values and not step.surely_has_samples:
        # Chosen all at once and not one by one, which would be a pass over memory, nor by a product: 0 * NaN is NaN.
        values = tf.cond(step.samples > 0, of_samples, lambda: [tf.zeros_like(value) for value in values])
    else:
        values = of_samples()
    rest = iter(values)

    def replaced(gradient: Gradient) -> Gradient:
        if isinstance(gradient, tf.IndexedSlices):
            return _slices_of_samples(next(rest), gradient, step)
        return None if gradient is None else next(rest)

    return [replaced(gradient) for gradient in grads]


def _as_distinct(summed: Any, as_in: Gradient) -> Gradient:
    """Joins the slices that several replicas have of one row, where a replica's own rows are distinct.

    Optimizers square slice by slice. Those of an embedding repeat a row for each time that it was looked up, on one
    replica as well; those of a product with a sparse matrix are distinct, on one replica, over the whole batch.
    """
    if not isinstance(as_in, tf.IndexedSlices) or tf.executing_eagerly() or not _is_distinct(as_in.indices):
        return summed
    rows, places = tf.unique(summed.indices)
    values = tf.math.unsorted_segment_sum(summed.values, places, tf.size(rows))
    return tf.IndexedSlices(values, rows, summed.dense_shape)


def _is_distinct(indices: tf.Tensor) -> bool:
    operation = indices.op
    while operation.type in ("Identity", "Reshape", "Cast", "StridedSlice"):
        operation = operation.inputs[0].op
    return operation.type.startswith("Unique")


def _slices_of_samples(values: tf.Tensor, gradient: tf.IndexedSlices, step: ReplicaStep) -> tf.IndexedSlices:
    """Slices of `gradient` with other values; none without samples, as optimizers may heed which rows have a slice."""
    indices = gradient.indices
    if not step.surely_has_samples:
        stop = tf.where(step.samples > 0, tf.size(indices), 0)
        values, indices = values[:stop], indices[:stop]
    return tf.IndexedSlices(values, indices, gradient.dense_shape)
