"""Operations of TensorFlow that compute with slices what follows from slices, each with the axis of its result."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from tfdist.keras_repairs.base.size_origins import depends_on_batch
from tfdist.keras_repairs.tensor_parallel import (
    arrangement_rules,
    image_rules,
    product_rules,
    reduction_rules,
    vocabulary_rules,
)
from tfdist.keras_repairs.tensor_parallel.position_slices import group_of_context
from tfdist.keras_repairs.tensor_parallel.row_exchanges import gathered, slices_of_all
from tfdist.keras_repairs.tensor_parallel.rule_results import (
    Compute,
    Input,
    Result,
    Rule,
    computed,
    is_of_all,
    of_all,
    rows_like,
    value_of,
    weight_like,
)
from tfdist.keras_repairs.tensor_parallel.sliced_tensors import (
    Part,
    SizesOfRows,
    SlicedRows,
    SlicedTensor,
    SlicedWeight,
    SumOfSlices,
)

_ELEMENTWISE = {
    *("Abs", "Acos", "Acosh", "Add", "AddN", "AddV2", "Asin", "Asinh", "Atan", "Atan2", "Atanh", "BitwiseAnd", "Cast"),
    *("Ceil", "ClipByValue", "Cos", "Cosh", "Div", "DivNoNan", "Elu", "Equal", "Erf", "Erfc", "Erfinv", "Exp", "Expm1"),
    *("Floor", "FloorDiv", "FloorMod", "Greater", "GreaterEqual", "IsFinite", "IsInf", "IsNan", "LeakyRelu", "Less"),
    *("LessEqual", "Log", "Log1p", "LogicalAnd", "LogicalNot", "LogicalOr", "Maximum", "Minimum", "Mul", "MulNoNan"),
    *("Neg", "NotEqual", "OnesLike", "Pow", "RealDiv", "Reciprocal", "Relu", "Relu6", "Rint", "Round", "Rsqrt"),
    *("SelectV2", "Selu", "Sigmoid", "Sign", "Sin", "Sinh", "Softplus", "Softsign", "Sqrt", "Square"),
    *("SquaredDifference", "StopGradient", "Sub", "Tan", "Tanh", "Xdivy", "Xlog1py", "Xlogy", "ZerosLike"),
}
"""Operations that work element by element, and broadcast their inputs."""


def of_slices(op_type: str, inputs: Sequence[Input], attributes: Mapping[str, Any]) -> Result:
    """Returns what this worker has of the results of an operation of which it has slices of inputs.

    Args:
        op_type: The operation's type.
        inputs: All of its inputs.
        attributes: Those of the operation, as its node has them.

    Returns:
        What it has of each result; None where the operation needs full inputs.
    """
    rule = _elementwise if op_type in _ELEMENTWISE else _RULES.get(op_type)
    return None if rule is None else rule(functools.partial(computed, op_type, attributes), inputs, attributes)


def _elementwise(compute: Compute, inputs: Sequence[Input], _: Mapping[str, Any]) -> Result:
    rows = [part for _, part in inputs if isinstance(part, SlicedRows)]
    if rows:
        return _of_rows(compute, inputs, rows[0] if group_of_context() is None else max(rows, key=_size))
    sums = [part.rows for _, part in inputs if isinstance(part, SumOfSlices)]
    if sums:
        return _of_sums(compute, inputs, sums[0])
    return _of_weights(compute, inputs)


def _size(part: SlicedRows) -> tuple[int, int]:
    """How large rows are, as far as it is known; those that are not cut alike are put together for the largest."""
    return part.slice.shape.rank, math.prod(size or 1 for size in part.shape)


def _of_rows(compute: Compute, inputs: Sequence[Input], first: SlicedRows) -> Result:
    rank = first.slice.shape.rank
    if any(tensor.shape.rank is None or tensor.shape.rank > rank for tensor, _ in inputs):
        return None
    fitting = [_fitting(tensor, part, first) for tensor, part in inputs]
    given = [fit() for fit in fitting if fit is not None]
    return [rows_like(first, compute(*given))] if len(given) == len(inputs) else None


def _of_sums(compute: Compute, inputs: Sequence[Input], first: SlicedRows) -> Result:
    """Of what follows from sums over what is cut: full as they are, or a slice where slices of a weight meet them."""
    rank = first.slice.shape.rank
    ranks = [tensor.shape.rank for tensor, _ in inputs]
    if any(each is None or each > rank for each in ranks):
        return None
    axes = [first.axis - rank + each for each in ranks]
    sizes = {tensor.shape[axis] for (tensor, _), axis in zip(inputs, axes, strict=True) if axis >= 0}
    has_own_rows = any(part is None and _has_rows(tensor, first) for tensor, part in inputs)
    if sizes == {1} and not has_own_rows and not any(isinstance(part, SlicedTensor) for _, part in inputs):
        return [SumOfSlices(first)]
    return None if has_own_rows else _of_rows(compute, inputs, first)


def _fitting(tensor: tf.Tensor, part: Part, first: SlicedRows) -> Callable[[], tf.Tensor] | None:
    """Returns what gives an input as it broadcasts to a slice of all rows; None where it needs the full ones."""
    rank = first.slice.shape.rank
    if isinstance(part, SlicedRows) and not part.is_cut_like(first) and group_of_context() is not None:
        return _fitting(part.full(), None, first) if part.slice.shape.rank == rank else None
    if isinstance(part, SlicedTensor):
        own = part.slice
        is_of_rows = isinstance(part, SlicedRows)
        fits = own.shape.rank == rank if is_of_rows else not _has_size_in_place_of_rows(own, rank)
        return (lambda: own) if fits and part.is_cut_like(first) else None
    axis = first.axis - rank + tensor.shape.rank
    size = tensor.shape[axis] if axis >= 0 else 1
    if size not in (1, first.bounds[-1]):
        return None
    if not (isinstance(part, SumOfSlices) or _has_rows(tensor, first)):
        if _has_size_in_place_of_rows(tensor, rank) or not is_of_all(tensor):
            return None
        return lambda: _slice_of_shared(of_all(tensor, first.group), axis, size, first)
    if size == 1:
        return lambda: gathered(tensor, first.group)[0]
    return lambda: slices_of_all(tensor, axis, first.bounds, first.group)[0]


def _has_rows(tensor: tf.Tensor, first: SlicedRows) -> bool:
    """Returns whether the first dimension of a tensor, which broadcasts to rows that are cut, is that of the rows: as
    on all workers, of which one may have a single row."""
    if tensor.shape.rank != first.slice.shape.rank:
        return False
    return tensor.shape[0] is None or (tensor.shape[0] == first.origin.shape[0] and depends_on_batch(tensor))


def _has_size_in_place_of_rows(tensor: tf.Tensor, rank: int) -> bool:
    """Returns whether a tensor without rows has another size than 1 where others have those."""
    return tensor.shape.rank == rank and tensor.shape[0] != 1


def _slice_of_shared(tensor: tf.Tensor, axis: int, size: int, first: SlicedTensor) -> tf.Tensor:
    if size == 1:
        return tensor
    start, stop = first.bounds[first.group.share : first.group.share + 2]
    return tensor[(*[slice(None)] * axis, slice(start, stop))]


def _of_weights(compute: Compute, inputs: Sequence[Input]) -> Result:
    """Of slices of weights that are cut alike, and of what is the same on all workers."""
    rank = max((tensor.shape.rank for tensor, _ in inputs if tensor.shape.rank is not None), default=0)
    weights = [part for _, part in inputs if isinstance(part, SlicedWeight) and part.slice.shape.rank == rank]
    if not weights or any(tensor.shape.rank is None for tensor, _ in inputs):
        return None
    first, given = weights[0], []
    for tensor, part in inputs:
        axis = first.axis - rank + tensor.shape.rank
        size = tensor.shape[axis] if axis >= 0 else 1
        if isinstance(part, SlicedWeight) and part.is_cut_like(first):
            given.append(functools.partial(lambda part: part.slice, part))
        elif part is None and size in (1, first.bounds[-1]) and is_of_all(tensor):
            given.append(functools.partial(_slice_of_all, tensor, axis, size, first))
        else:
            return None

    def full() -> tf.Tensor:
        return compute(*(part.full() if isinstance(part, SlicedWeight) else tensor for tensor, part in inputs))

    return [weight_like(first, compute(*(fit() for fit in given)), first.axis, full)]


def _slice_of_all(tensor: tf.Tensor, axis: int, size: int, first: SlicedTensor) -> tf.Tensor:
    return _slice_of_shared(of_all(tensor, first.group), axis, size, first)


def _bias(compute: Compute, inputs: Sequence[Input], attributes: Mapping[str, Any]) -> Result:
    """A vector that is added along the last dimension."""
    is_last = value_of(attributes["data_format"]) == "NHWC"
    return _elementwise(compute, inputs, attributes) if is_last and isinstance(inputs[0][1], SlicedRows) else None


def _bits(compute: Compute, inputs: Sequence[Input], attributes: Mapping[str, Any]) -> Result:
    """The same bits as numbers of another kind."""
    ((_, part),) = inputs
    is_alike = isinstance(part, SlicedTensor) and part.slice.dtype.size == value_of(attributes["type"]).size
    return _elementwise(compute, inputs, attributes) if is_alike else None


def _filled(_compute: Compute, inputs: Sequence[Input], _: Mapping[str, Any]) -> Result:
    """A tensor of one value, of the sizes of rows that are cut."""
    (_, sizes), (value, part) = inputs
    if not isinstance(sizes, SizesOfRows) or part is not None or not is_of_all(value):
        return None
    filled = tf.fill(tf.shape(sizes.rows.slice), of_all(value, sizes.rows.group))
    return [rows_like(sizes.rows, tf.ensure_shape(filled, sizes.rows.slice.shape))]


_RULES: Mapping[str, Rule] = {
    "BiasAdd": _bias,
    "Bitcast": _bits,
    "Fill": _filled,
    **arrangement_rules.RULES,
    **image_rules.RULES,
    **product_rules.RULES,
    **reduction_rules.RULES,
    **vocabulary_rules.RULES,
}
