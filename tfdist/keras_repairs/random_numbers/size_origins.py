"""Where a size comes from, as the graph being traced tells: from the values of the data, or from another dimension.

`tf.boolean_mask` makes a size that the values decide. The length of time steps is another dimension than the batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

_SELECTING = {
    "Where",
    "Unique",
    "UniqueV2",
    "UniqueWithCounts",
    "UniqueWithCountsV2",
    "DynamicPartition",
    "ListDiff",
    "NonMaxSuppressionV3",
    "NonMaxSuppressionV4",
    "NonMaxSuppressionV5",
    "StringSplitV2",
    "RaggedRange",
}
"""Operations whose result is as large as the values of their inputs make it."""

_SIZED_BY = {"SegmentSum": 1}
"""Operations of whose inputs one alone makes the size: a dense layer of sparse rows, computed as an embedding of the
columns that occur, has the rows that the sum is taken for.
"""


_NO_DATA = {"Const", "ReadVariableOp", "NoOp", "RngReadAndSkip", "StatelessRandomGetAlg", "EmptyTensorList"}
"""Operations without inputs, or of variables alone, whose results are not those of a batch."""


def depends_on_data(size: Any, known: set[int]) -> bool:
    """Whether a tensor that is a size is computed with an operation that selects by values.

    Args:
        size: A scalar tensor of the graph being traced.
        known: The ids of operations that are known not to; those that are found not to are added.
    """
    if not hasattr(size, "op"):
        return False
    waiting, found = [size.op], set()
    while waiting:
        operation = waiting.pop()
        if id(operation) in known or id(operation) in found:
            continue
        if operation.type in _SELECTING:
            return True
        found.add(id(operation))
        sizing = _SIZED_BY.get(operation.type)
        waiting.extend(tensor.op for tensor in (operation.inputs if sizing is None else [operation.inputs[sizing]]))
        waiting.extend(_outside(operation))
    known |= found
    return False


def is_of_other_dimension(size: Any) -> bool:
    """Whether a scalar tensor is a later size of a tensor whose first one is not known either, and is the batch's."""
    source = _source(size)
    return source is not None and _is_later(*source)


def depends_on_batch(tensor: Any) -> bool:
    """Whether a tensor of the graph being traced follows from the batch: from its values, or from how many rows it has.

    Sizes of other dimensions than that of the batch, variables and seeds do not.
    """
    waiting, found = [tensor], set()
    while waiting:
        tensor = waiting.pop()
        if not hasattr(tensor, "graph") or id(tensor) in found:
            continue
        found.add(id(tensor))
        source = _source(tensor)
        if source is not None:
            if source[0].shape.rank and source[0].shape[source[1]] is None and not _is_later(*source):
                return True
            continue
        operation, outer = tensor.op, _outside(tensor.op)
        if operation.type == "Shape" and operation.inputs[0].shape.is_fully_defined():
            continue
        inputs = [given for given in operation.inputs if not _is_handle(given)]
        if not inputs and not outer and operation.type not in _NO_DATA and not _is_handle(tensor):
            return True
        waiting.extend(inputs)
        waiting.extend(outside.outputs[0] for outside in outer)
    return False


def _is_handle(tensor: Any) -> bool:
    """Whether a tensor is a variable or the like, not a value."""
    return tensor.dtype in (tf.resource, tf.variant)


def _is_later(tensor: Any, dimension: int) -> bool:
    """Whether a dimension of a tensor is another one than the batch's, which is first where it is not known either."""
    operation = _without_casts(tensor)
    if operation is not None and operation.type == "Transpose":
        order = tf.get_static_value(operation.inputs[1])
        if order is not None:
            return _is_later(operation.inputs[0], int(order[dimension]))
    return bool(tensor.shape.rank) and dimension % tensor.shape.rank != 0 and tensor.shape[0] is None


def _source(size: Any) -> tuple[Any, int] | None:
    """The tensor of which a scalar tensor is a size, and which one; None where it is anything else."""
    operation = _without_casts(size)
    if operation is None or operation.type != "StridedSlice":
        return None
    begin = tf.get_static_value(operation.inputs[1])
    return None if begin is None or len(begin) != 1 else _element(operation.inputs[0], int(begin[0]))


def _element(vector: Any, place: int) -> tuple[Any, int] | None:
    """As `_source`, of one number of a vector."""
    operation = _without_casts(vector)
    if operation is None:
        return None
    if place < 0 and operation.outputs[0].shape.rank == 1 and operation.outputs[0].shape[0] is not None:
        place += operation.outputs[0].shape[0]
    if operation.type == "Shape":
        return operation.inputs[0], place
    if operation.type == "Pack" and operation.get_attr("axis") == 0:
        return _source(operation.inputs[place])
    if operation.type == "ConcatV2":
        return _element_of_joined(operation.inputs[:-1], place)
    if operation.type == "StridedSlice" and place >= 0:
        return _element_of_slice(operation, place)
    return None


def _element_of_joined(vectors: Sequence[Any], place: int) -> tuple[Any, int] | None:
    for vector in vectors:
        length = vector.shape[0]
        if length is None or place < 0:
            return None
        if place < length:
            return _element(vector, place)
        place -= length
    return None


def _element_of_slice(operation: tf.Operation, place: int) -> tuple[Any, int] | None:
    begin, strides = (tf.get_static_value(operation.inputs[i]) for i in (1, 3))
    if begin is None or strides is None or len(begin) != 1 or strides[0] != 1:
        return None
    first = 0 if operation.get_attr("begin_mask") & 1 else int(begin[0])
    if first < 0 and operation.inputs[0].shape[0] is not None:
        first += operation.inputs[0].shape[0]
    return None if first < 0 else _element(operation.inputs[0], first + place)


def _without_casts(tensor: Any) -> Any:
    """The operation that a tensor is from, before it was converted to another dtype; None outside of graphs."""
    operation = getattr(tensor, "op", None)
    while operation is not None and operation.type in ("Cast", "Identity"):
        operation = operation.inputs[0].op
    return operation


def _outside(operation: tf.Operation) -> list[tf.Operation]:
    """What a placeholder of a function takes its value from, outside of it."""
    if operation.type != "Placeholder":
        return []
    captures = getattr(operation.graph, "captures", ())
    return [outer.op for outer, inner in captures if inner is operation.outputs[0] and hasattr(outer, "op")]
