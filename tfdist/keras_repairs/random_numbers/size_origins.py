"""Where a size comes from, as the graph being traced tells: from the values of the data, or from another dimension.

`tf.boolean_mask` makes a size that the values decide. The length of time steps is another dimension than the batch.
"""

from __future__ import annotations

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
        waiting.extend(tensor.op for tensor in operation.inputs)
        waiting.extend(_outside(operation))
    known |= found
    return False


def is_of_other_dimension(size: Any) -> bool:
    """Whether a scalar tensor is a later size of a tensor whose first one is not known either, and is the batch's."""
    operation = getattr(size, "op", None)
    while operation is not None and operation.type in ("Cast", "Identity"):
        operation = operation.inputs[0].op
    if operation is None or operation.type != "StridedSlice" or operation.inputs[0].op.type != "Shape":
        return False
    begin = tf.get_static_value(operation.inputs[1])
    shape = operation.inputs[0].op.inputs[0].shape
    if begin is None or len(begin) != 1 or not shape.rank:
        return False
    return int(begin[0]) % shape.rank != 0 and shape[0] is None


def _outside(operation: tf.Operation) -> list[tf.Operation]:
    """What a placeholder of a function takes its value from, outside of it."""
    if operation.type != "Placeholder":
        return []
    captures = getattr(operation.graph, "captures", ())
    return [outer.op for outer, inner in captures if inner is operation.outputs[0] and hasattr(outer, "op")]
