"""Sizes that the values of the data decide, such as that of `tf.boolean_mask`; found in the graph being traced."""

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


def _outside(operation: tf.Operation) -> list[tf.Operation]:
    """What a placeholder of a function takes its value from, outside of it."""
    if operation.type != "Placeholder":
        return []
    captures = getattr(operation.graph, "captures", ())
    return [outer.op for outer, inner in captures if inner is operation.outputs[0] and hasattr(outer, "op")]
