"""Which lookups the slices of a gradient are of: of samples, or the same in all batches, as the graph tells."""

from __future__ import annotations

import tensorflow as tf

from tfdist.keras_repairs.base.replica_step import current_step
from tfdist.keras_repairs.random_numbers.size_origins import depends_on_batch


def lookups(indices: tf.Tensor) -> list[tuple[tf.Tensor, bool]]:
    """The indices of each lookup that slices are of, in their order, and whether it is one of samples.

    What cannot be told is taken for one of samples.
    """
    step = current_step()
    if step is None or not hasattr(indices, "graph") or tf.executing_eagerly():
        return [(indices, True)]
    return [(each, _is_of_samples(each, step.static_rows)) for each in _joined_of(indices)]


def _joined_of(indices: tf.Tensor) -> list[tf.Tensor]:
    """What TensorFlow has joined of the gradients of several lookups in one variable."""
    if indices.op.type != "ConcatV2":
        return [indices]
    return [part for joined in list(indices.op.inputs)[:-1] for part in _joined_of(joined)]


def _is_of_samples(indices: tf.Tensor, rows: int | None) -> bool:
    if depends_on_batch(indices):
        return True
    # Where sizes are numbers, one that follows from the batch may be any multiple of its rows.
    return rows is not None and (indices.shape.num_elements() is None or indices.shape.num_elements() % rows == 0)
