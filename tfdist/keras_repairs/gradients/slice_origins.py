"""Finds the lookups of a gradient's slices: of samples, or the same in all batches, as the graph tells."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from typing import Any

import tensorflow as tf

from tfdist.keras_repairs.base.replica_step import current_step
from tfdist.keras_repairs.base.size_origins import depends_on_batch

_DRAWS = {"IteratorGetNext", "IteratorGetNextAsOptional", "OptionalGetValue"}
"""Operations that give a batch inside of a function."""


def lookups(indices: tf.Tensor) -> list[tuple[tf.Tensor, bool]]:
    """The indices of each lookup that slices are of, in their order, and whether it is one of samples.

    What cannot be told is taken for one of samples.
    """
    if not hasattr(indices, "graph") or tf.executing_eagerly():
        return [(indices, True)]
    step = current_step()
    rows = _known_rows(indices.graph) if step is None else {step.share.static_rows or 0} - {0}
    return [(each, _is_of_samples(each, rows)) for each in _joined_of(indices)]


def _joined_of(indices: tf.Tensor) -> list[tf.Tensor]:
    """Returns what TensorFlow has joined of the gradients of several lookups in one variable."""
    if indices.op.type != "ConcatV2":
        return [indices]
    return [part for joined in list(indices.op.inputs)[:-1] for part in _joined_of(joined)]


def _is_of_samples(indices: tf.Tensor, rows: AbstractSet[int]) -> bool:
    if depends_on_batch(indices):
        return True
    # Where sizes are numbers, one that follows from the batch may be any multiple of its rows.
    size = indices.shape.num_elements()
    return any(size is None or size % each == 0 for each in rows)


def _known_rows(graph: Any) -> set[int]:
    """The first sizes of the data that a function in a loop of the user's is given, where they are numbers."""
    tensors = []
    while hasattr(graph, "inputs"):
        tensors += [*graph.inputs, *(out for op in graph.get_operations() if op.type in _DRAWS for out in op.outputs)]
        graph = graph.outer_graph
    return {tensor.shape[0] for tensor in tensors if tensor.shape.rank} - {None, 0}
