"""Finds the origin of a size, as the graph being traced tells: the values of the data, or another dimension.

`tf.boolean_mask` makes a size that the values decide. The length of time steps is another dimension than the batch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
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


_UNIQUE = {"Unique", "UniqueV2", "UniqueWithCounts", "UniqueWithCountsV2"}

_BY_SIZES = {
    *("Identity", "EnsureShape", "Cast", "StopGradient", "PreventGradient", "CheckNumerics", "SelectV2"),
    *("Add", "AddV2", "Sub", "Mul", "RealDiv", "DivNoNan", "Maximum", "Minimum", "Pow", "Neg", "Abs", "Square", "Sqrt"),
    *("Rsqrt", "Exp", "Log", "Erf", "Erfc", "Sin", "Cos", "Tanh", "Sigmoid", "Softplus", "Relu", "Relu6", "LeakyRelu"),
    *("Elu", "Selu", "Softmax", "LogSoftmax", "BiasAdd", "MatMul", "BatchMatMulV2", "BatchMatMulV3", "Einsum"),
}
"""Operations whose result has sizes that follow from those of their inputs, whatever the values are."""

_SIZED_AS = "_tfdist_sized_as"
"""The attribute of an operation with the tensor whose sizes are those of its result; see `sized_as`."""

_NO_DATA = {"Const", "ReadVariableOp", "NoOp", "RngReadAndSkip", "StatelessRandomGetAlg", "EmptyTensorList"}
"""Operations without inputs, or of variables alone, whose results are not those of a batch."""


def sized_as(result: Any, given: Any) -> Any:
    """Marks a tensor of which tfdist knows that its sizes follow from those of another tensor, however it was computed.

    Args:
        result: Of the graph being traced; it is returned. A tensor outside of graphs has numbers for sizes.
        given: A tensor of the same graph.
    """
    if hasattr(result, "graph"):
        setattr(result.op, _SIZED_AS, given)
    return result


def with_rows_of(result: Any, given: Any) -> Any:
    """Marks a tensor as `sized_as` does, and has it keep the number of rows that the shape of the other one tells."""
    if given.shape[0] is not None:
        result.set_shape([given.shape[0], *result.shape[1:]])
    return sized_as(result, given)


def depends_on_data(size: Any, known: set[tuple[int, int, bool]]) -> bool:
    """Returns whether a tensor that is a size is computed with an operation that selects by values.

    Args:
        size: A scalar tensor of the graph being traced.
        known: The results of operations that are known not to; those that are found not to are added.
    """
    if not hasattr(size, "op"):
        return False
    waiting, found = [(size, False)], set()
    while waiting:
        tensor, is_sized = waiting.pop()
        operation = tensor.op
        place = (id(operation), tensor.value_index, is_sized)
        if place in known or place in found:
            continue
        found.add(place)
        marked = getattr(operation, _SIZED_AS, None)
        given = [(marked, is_sized)] if marked is not None else _what_sizes(tensor) if is_sized else None
        if given is None and operation.type in _SELECTING:
            return True
        waiting.extend(_what_makes(operation) if given is None else given)
        waiting.extend((outside, is_sized) for outside in _outside(operation))
    known |= found
    return False


def _what_makes(operation: tf.Operation) -> list[tuple[Any, bool]]:
    """The tensors from which an operation is computed, each with whether its sizes alone count."""
    if operation.type in ("Shape", "ShapeN", "Size"):
        return [(tensor, True) for tensor in operation.inputs]
    sizing = _SIZED_BY.get(operation.type)
    return [(tensor, False) for tensor in (operation.inputs if sizing is None else [operation.inputs[sizing]])]


def _what_sizes(tensor: Any) -> list[tuple[Any, bool]] | None:
    """Returns what makes the sizes of a tensor, as `_what_makes`; None where all does from which it is computed."""
    operation = tensor.op
    if operation.type in _BY_SIZES:
        return [(given, True) for given in operation.inputs]
    if operation.type in _UNIQUE and tensor.value_index == 1:
        # The place of each value among those that differ.
        return [(operation.inputs[0], True)]
    if operation.type == "GatherV2" and not any(size is None for size in operation.inputs[0].shape[1:] or [None]):
        return [(operation.inputs[1], True)]
    if operation.type == "Reshape":
        left = [(operation.inputs[0], True)] if _leaves_a_size_open(operation.inputs[1]) else []
        return [(operation.inputs[1], False), *left]
    return None


def _leaves_a_size_open(shape: Any) -> bool:
    """Returns whether a shape may have a -1, for the size that is left."""
    operation = _without_casts(shape)
    value = tf.get_static_value(shape)
    if value is not None:
        return bool((value < 0).any())
    if operation.type in ("Pack", "ConcatV2"):
        parts = operation.inputs if operation.type == "Pack" else operation.inputs[:-1]
        return any(map(_leaves_a_size_open, parts))
    if operation.type == "StridedSlice":
        return _leaves_a_size_open(operation.inputs[0])
    return operation.type != "Shape"


def is_of_other_dimension(size: Any) -> bool:
    """Returns whether a scalar tensor is a later size of a tensor whose first one is not known either, and is the
    batch's."""
    source = _source(size)
    return source is not None and _is_later(*source)


def depends_on_batch(
    tensor: Any,
    is_apart: Callable[[tf.Operation], bool] = lambda _: False,
    sizes: Sequence[Any] = (),
    *,
    by_values: bool = False,
) -> bool:
    """Returns whether a tensor of the graph being traced follows from the batch: from its values, or from how many rows
    it has.

    Sizes of other dimensions than that of the batch, variables and seeds do not.

    Args:
        tensor: The tensor.
        is_apart: Returns whether what an operation depends on does not count.
        sizes: Tensors of the graph that are known to say how many rows it has, or where it begins.
        by_values: Whether the values of the batch alone count, and the sizes that they make.
    """
    waiting, found = [tensor], set()
    while waiting:
        tensor = waiting.pop()
        if not hasattr(tensor, "graph") or id(tensor) in found:
            continue
        if any(tensor is size for size in sizes):
            return True
        found.add(id(tensor))
        source = _source(tensor)
        if by_values and (source is not None or _is_size(tensor)):
            if _is_sized_by_values(tensor, is_apart):
                return True
            continue
        if source is not None:
            # Behind the last size of a tensor there is nothing, such as the sizes of an element of a vector.
            is_size = bool(source[0].shape.rank) and source[1] < source[0].shape.rank
            if is_size and source[0].shape[source[1]] is None and not _is_later(*source):
                return True
            continue
        operation, outer = tensor.op, _outside(tensor.op)
        if is_apart(operation):
            continue
        if operation.type == "Shape" and operation.inputs[0].shape.is_fully_defined():
            continue
        if _is_of_outside(operation):
            continue
        # With a gradient of its own, each result stands beside the arguments.
        given_here = [operation.inputs[tensor.value_index]] if operation.type == "IdentityN" else operation.inputs
        # The values of a batch may lie in a list of tensors.
        is_left_out = _is_variable if by_values else _is_handle
        inputs = [given for given in given_here if not is_left_out(given)]
        if not inputs and not outer and operation.type not in _NO_DATA and not _is_handle(tensor):
            return True
        waiting.extend(inputs)
        waiting.extend(outer)
    return False


def depends_on_values(tensor: Any, is_apart: Callable[[tf.Operation], bool]) -> bool:
    """As `depends_on_batch`, where the values of the batch alone count, and the sizes that they make."""
    return depends_on_batch(tensor, is_apart, by_values=True)


def _is_size(tensor: Any) -> bool:
    return tensor.op.type in ("Shape", "ShapeN", "Size")


_BY_THEIR_INPUTS = {
    **{"StridedSlice": (1, 2), "Slice": (1, 2), "Range": (0, 1), "LinSpace": (2,), "OneHot": (1,)},
    **dict.fromkeys(("Fill", "RandomUniform", "RandomStandardNormal"), (0,)),
    **dict.fromkeys(("Reshape", "BroadcastTo", "Tile", "Pad", "PadV2", "MirrorPad"), (1,)),
}
"""Operations whose result has the sizes that these inputs make."""

_OF_LENGTHS = {"RaggedTensorToTensor", "RaggedTensorToSparse", "SparseToDense", "SparseTensorDenseMatMul"}
"""Operations whose result is as large as the lengths of rows make it, which are values."""


def _is_sized_by_values(size: Any, is_apart: Callable[[tf.Operation], bool]) -> bool:
    """Returns whether the values of the batch make any of what a size is that of."""
    waiting, found = [size], set()
    while waiting:
        tensor = waiting.pop()
        if not hasattr(tensor, "graph") or id(tensor) in found or is_apart(tensor.op):
            continue
        found.add(id(tensor))
        operation = tensor.op
        if operation.type in _SELECTING or operation.type in _OF_LENGTHS:
            return True
        if tensor is not size and operation.type in _BY_THEIR_INPUTS:
            sizing = [operation.inputs[place] for place in _BY_THEIR_INPUTS[operation.type]]
            if any(depends_on_values(each, is_apart) for each in sizing):
                return True
        waiting.extend(operation.inputs)
        waiting.extend(_outside(operation))
    return False


def _is_handle(tensor: Any) -> bool:
    """Returns whether a tensor is a variable or the like, not a value."""
    return tensor.dtype in (tf.resource, tf.variant)


def _is_variable(tensor: Any) -> bool:
    return bool(tensor.dtype == tf.resource)


def _is_later(tensor: Any, dimension: int) -> bool:
    """Returns whether a dimension of a tensor is another one than the batch's, which is first where it is not known
    either."""
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
        # Behind the last there is none: of a tensor of more dimensions, whose sizes are asked for by their place.
        return _source(operation.inputs[place]) if place < len(operation.inputs) else None
    if operation.type == "ConcatV2":
        return _element_of_joined(operation.inputs[:-1], place)
    if operation.type == "GatherV2":
        places = tf.get_static_value(operation.inputs[1])
        is_of_vector = operation.inputs[0].shape.rank == 1 and places is not None and places.ndim == 1
        return _element(operation.inputs[0], int(places[place])) if is_of_vector and place < len(places) else None
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


def _is_of_outside(operation: tf.Operation) -> bool:
    """Returns whether an operation stands for a tensor that was computed before the trace, and is the same in every
    step."""
    if operation.type != "Placeholder":
        return False
    captures = getattr(operation.graph, "captures", ())
    return any(inner is operation.outputs[0] and not hasattr(outer, "graph") for outer, inner in captures)


def _outside(operation: tf.Operation) -> list[Any]:
    """Returns what a placeholder of a function takes its value from, outside of it."""
    if operation.type != "Placeholder":
        return []
    captures = getattr(operation.graph, "captures", ())
    return [outer for outer, inner in captures if inner is operation.outputs[0] and hasattr(outer, "op")]
