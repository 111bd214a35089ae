"""Operations of TensorFlow that compute with slices what follows from slices, each with the axis of its result."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import tensorflow as tf
from tensorflow.python.eager import record
from tensorflow.python.framework import op_def_registry, tensor_util

from tfdist.keras_repairs.base.size_origins import depends_on_batch
from tfdist.keras_repairs.tensor_parallel.row_exchanges import gathered, slices_of_all
from tfdist.keras_repairs.tensor_parallel.sliced_tensors import SizesOfRows, SlicedRows, SlicedTensor, SlicedWeight

Part: TypeAlias = SlicedTensor | SizesOfRows | None
Input: TypeAlias = tuple[tf.Tensor, Part]
"""An input of an operation, and what this worker has of it where that is a slice."""

Compute: TypeAlias = Callable[..., Any]
Result: TypeAlias = Sequence[SlicedTensor] | None
Rule: TypeAlias = Callable[[Compute, Sequence[Input], Mapping[str, Any]], Result]

_ELEMENTWISE = {
    *("Abs", "Add", "AddV2", "Cast", "Cos", "DivNoNan", "Elu", "Equal", "Erf", "Erfc", "Exp", "Expm1", "Greater"),
    *("GreaterEqual", "LeakyRelu", "Less", "LessEqual", "Log", "Log1p", "LogicalAnd", "LogicalNot", "LogicalOr"),
    *("Maximum", "Minimum", "Mul", "MulNoNan", "Neg", "NotEqual", "Pow", "RealDiv", "Reciprocal", "Relu", "Relu6"),
    *("Rsqrt", "SelectV2", "Selu", "Sigmoid", "Sign", "Sin", "Softplus", "Softsign", "Sqrt", "Square"),
    *("SquaredDifference", "Sub", "Tanh", "Xlogy"),
}
"""Operations that work element by element, and broadcast their inputs."""


def of_slices(op_type: str, inputs: Sequence[Input], attributes: Mapping[str, Any]) -> Result:
    """Returns what this worker has of the results of an operation of which it has slices of inputs.

    Args:
        op_type: The operation's type.
        inputs: All of its inputs.
        attributes: Those of the operation, as its node has them.

    Returns:
        The slice of each result; None where the operation needs full inputs.
    """
    rule = _elementwise if op_type in _ELEMENTWISE else _RULES.get(op_type)
    return None if rule is None else rule(functools.partial(_computed, op_type, attributes), inputs, attributes)


def _elementwise(compute: Compute, inputs: Sequence[Input], _: Mapping[str, Any]) -> Result:
    rows = [part for _, part in inputs if isinstance(part, SlicedRows)]
    if not rows:
        axes = {part.axis for _, part in inputs if isinstance(part, SlicedWeight)}
        has_numbers = all(tensor.shape.rank == 0 for tensor, part in inputs if part is None)
        return _of_weight_alone(compute, inputs, *axes) if has_numbers and len(axes) == 1 else None
    first = rows[0]
    rank = first.slice.shape.rank
    if any(tensor.shape.rank is None or tensor.shape.rank > rank for tensor, _ in inputs):
        return None
    fitting = [_fitting(tensor, part, first) for tensor, part in inputs]
    given = [fit() for fit in fitting if fit is not None]
    return _rows(first, compute(*given)) if len(given) == len(inputs) else None


def _fitting(tensor: tf.Tensor, part: Part, first: SlicedRows) -> Callable[[], tf.Tensor] | None:
    """Returns what gives an input as it broadcasts to a slice of all rows; None where it needs the full ones."""
    rank = first.slice.shape.rank
    if isinstance(part, SlicedTensor):
        own = part.slice
        has_rows = not isinstance(part, SlicedRows) or own.shape.rank == rank
        return (lambda: own) if has_rows and part.is_cut_like(first) else None
    axis = first.axis - rank + tensor.shape.rank
    size = tensor.shape[axis] if axis >= 0 else 1
    if size not in (1, first.bounds[-1]):
        return None
    if not _has_rows(tensor, rank):
        if not _is_of_all(tensor):
            return None
        return lambda: tensor if size == 1 else _slice_of_shared(tensor, axis, first)
    if size == 1:
        return lambda: gathered(tensor, first.group)[0]
    return lambda: slices_of_all(tensor, axis, first.bounds, first.group)[0]


def _has_rows(tensor: tf.Tensor, rank: int) -> bool:
    """Returns whether the first dimension of a tensor, which broadcasts to one of this rank, is that of the rows: as on
    all workers, of which one may have a single row."""
    return tensor.shape.rank == rank and (tensor.shape[0] is None or depends_on_batch(tensor))


def _is_of_all(tensor: tf.Tensor) -> bool:
    """Returns whether a tensor without rows is the same on all workers, and no gradient is taken by it.

    A number that follows from a worker's own rows is for these alone. Of a gradient a worker would have what comes from
    a slice.
    """
    return not depends_on_batch(tensor) and not (tensor.dtype.is_floating and record.should_record_backprop([tensor]))


def _slice_of_shared(tensor: tf.Tensor, axis: int, first: SlicedRows) -> tf.Tensor:
    start, stop = first.bounds[first.group.share : first.group.share + 2]
    return tf.gather(tensor, tf.range(start, stop), axis=axis)


def _bias(compute: Compute, inputs: Sequence[Input], attributes: Mapping[str, Any]) -> Result:
    """A vector that is added along the last dimension."""
    is_last = _value_of(attributes["data_format"]) == "NHWC"
    return _elementwise(compute, inputs, attributes) if is_last and isinstance(inputs[0][1], SlicedRows) else None


def _softmax(compute: Compute, inputs: Sequence[Input], _: Mapping[str, Any]) -> Result:
    ((_, part),) = inputs
    if not isinstance(part, SlicedRows) or part.axis == part.slice.shape.rank - 1:
        return None
    return _rows(part, compute(part.slice))


def _reduction(compute: Compute, inputs: Sequence[Input], attributes: Mapping[str, Any]) -> Result:
    """A sum, a mean or the like over dimensions that each worker has in full, and not over the rows."""
    (_, part), (axes_tensor, other) = inputs
    axes = tf.get_static_value(axes_tensor) if other is None else None
    if not isinstance(part, SlicedRows) or axes is None:
        return None
    rank = part.slice.shape.rank
    over = {int(axis) % rank for axis in axes.reshape(-1)}
    if over & {0, part.axis}:
        return None
    is_kept = bool(_value_of(attributes["keep_dims"]))
    before = 0 if is_kept else sum(axis < part.axis for axis in over)
    return _rows(part, compute(part.slice, axes_tensor), part.axis - before)


def _transpose(compute: Compute, inputs: Sequence[Input], _: Mapping[str, Any]) -> Result:
    (_, part), (order_tensor, other) = inputs
    order = tf.get_static_value(order_tensor) if other is None else None
    if not isinstance(part, SlicedTensor) or order is None:
        return None
    axis = [int(place) for place in order].index(part.axis)
    if not isinstance(part, SlicedRows):
        return _of_weight_alone(compute, inputs, axis)
    return None if order[0] else _rows(part, compute(part.slice, order_tensor), axis)


def _expanded(compute: Compute, inputs: Sequence[Input], _: Mapping[str, Any]) -> Result:
    (_, part), (place_tensor, other) = inputs
    place = tf.get_static_value(place_tensor) if other is None else None
    if not isinstance(part, SlicedRows) or place is None:
        return None
    at = int(place) % (part.slice.shape.rank + 1)
    return _rows(part, compute(part.slice, place_tensor), part.axis + (at <= part.axis)) if at else None


def _reshape(_compute: Compute, inputs: Sequence[Input], _: Mapping[str, Any]) -> Result:
    """Another arrangement of the dimensions behind the one that is cut."""
    (tensor, part), (sizes, _of_sizes) = inputs
    shape, before = tensor_util.constant_value_as_shape(sizes), tensor.shape
    if not isinstance(part, SlicedRows):
        return _of_vector(part, shape)
    kept = part.axis + 1
    if shape.rank is None or shape.rank < kept or not shape[kept:].is_fully_defined():
        return None
    if not shape[1:kept].is_fully_defined() or shape[1:kept] != before[1:kept] or not before[kept:].is_fully_defined():
        return None
    if shape[kept:].num_elements() != before[kept:].num_elements():
        return None
    own = tf.concat([tf.shape(part.slice)[:kept], shape[kept:].as_list()], 0)
    return _rows(part, tf.ensure_shape(tf.reshape(part.slice, own), [*part.slice.shape[:kept], *shape[kept:]]))


def _of_vector(part: Part, shape: tf.TensorShape) -> Result:
    """A weight of one dimension that is not 1, such as a bias, with others of 1 before or behind it."""
    if not isinstance(part, SlicedWeight) or not shape.is_fully_defined():
        return None
    places = [place for place, size in enumerate(shape) if size != 1]
    others = [size for place, size in enumerate(part.slice.shape) if place != part.axis]
    if len(places) != 1 or shape[places[0]] != part.bounds[-1] or any(size != 1 for size in others):
        return None
    own, place = [1] * shape.rank, places[0]
    own[place] = -1
    full = functools.partial(_reshaped, part, shape)
    return [SlicedWeight(tf.reshape(part.slice, own), place, part.bounds, part.group, full)]


def _reshaped(part: SlicedWeight, shape: tf.TensorShape) -> tf.Tensor:
    return tf.reshape(part.full(), shape)


def _squeezed(_: Compute, inputs: Sequence[Input], attributes: Mapping[str, Any]) -> Result:
    ((tensor, part),) = inputs
    if not isinstance(part, SlicedWeight) or sum(size != 1 for size in tensor.shape) != 1:
        return None
    return _of_vector(part, tf.TensorShape(part.bounds[-1:]))


def _filled(_compute: Compute, inputs: Sequence[Input], _: Mapping[str, Any]) -> Result:
    """A tensor of one value, of the sizes of rows that are cut."""
    (_, sizes), (value, part) = inputs
    if not isinstance(sizes, SizesOfRows) or part is not None or not _is_of_all(value):
        return None
    filled = tf.fill(tf.shape(sizes.rows.slice), value)
    return _rows(sizes.rows, tf.ensure_shape(filled, sizes.rows.slice.shape))


def _batch_product(compute: Compute, inputs: Sequence[Input], _: Mapping[str, Any]) -> Result:
    """A product of matrices, where workers have other matrices: those of some heads."""
    first, second = (part for _, part in inputs)
    if not isinstance(first, SlicedRows) or not isinstance(second, SlicedRows):
        return None
    rank = first.slice.shape.rank
    is_alike = second.slice.shape.rank == rank and first.is_cut_like(second)
    return _rows(first, compute(first.slice, second.slice)) if is_alike and first.axis < rank - 2 else None


def _einsum(compute: Compute, inputs: Sequence[Input], attributes: Mapping[str, Any]) -> Result:
    """Products along other labels than those of the rows and of what is cut, which all terms have."""
    parts = [part for _, part in inputs if isinstance(part, SlicedRows)]
    given, _arrow, result = _value_of(attributes["equation"]).partition("->")
    terms = given.split(",")
    if "." in given or len(parts) != len(inputs) or len({(part.bounds, part.group) for part in parts}) != 1:
        return None
    labels = {term[part.axis] for term, part in zip(terms, parts, strict=True)}
    rows = {term[0] for term in terms} | {result[:1]}
    if len(labels) != 1 or len(rows) != 1 or any(term.count(*labels) != 1 for term in (*terms, result)):
        return None
    return _rows(parts[0], compute(*(part.slice for part in parts)), result.index(*labels))


_RULES: Mapping[str, Rule] = {
    "BatchMatMulV2": _batch_product,
    "BatchMatMulV3": _batch_product,
    "BiasAdd": _bias,
    "Einsum": _einsum,
    "ExpandDims": _expanded,
    "Fill": _filled,
    "LogSoftmax": _softmax,
    "Max": _reduction,
    "Mean": _reduction,
    "Min": _reduction,
    "Reshape": _reshape,
    "Softmax": _softmax,
    "Squeeze": _squeezed,
    "Sum": _reduction,
    "Transpose": _transpose,
}


def _rows(part: SlicedRows, result: tf.Tensor, axis: int | None = None) -> Sequence[SlicedRows]:
    return [replace(part, slice=result, axis=part.axis if axis is None else axis, _full=[])]


def _of_weight_alone(compute: Compute, inputs: Sequence[Input], axis: int) -> Result:
    """Of one weight, and what of it is no gradient's: its cast, its transpose, its product with a number."""
    place = next(place for place, (_, part) in enumerate(inputs) if part is not None)
    part = inputs[place][1]
    rest = [tensor for tensor, other in inputs if other is None]
    if not isinstance(part, SlicedWeight) or len(rest) != len(inputs) - 1 or not all(map(_is_of_all, rest)):
        return None

    def with_weight(weight: tf.Tensor) -> tf.Tensor:
        return compute(*rest[:place], weight, *rest[place:])

    return [SlicedWeight(with_weight(part.slice), axis, part.bounds, part.group, lambda: with_weight(part.full()))]


def _computed(op_type: str, attributes: Mapping[str, Any], *inputs: tf.Tensor) -> Any:
    """The results of an operation of this type with other inputs, as TensorFlow's own functions create it."""
    definition = op_def_registry.get(op_type)
    arguments = definition.input_arg
    of_inputs = {name for argument in arguments for name in (argument.type_attr, argument.number_attr)}
    values = [list(inputs)] if arguments[0].number_attr else list(inputs)
    given = {
        attribute.name: _value_of(attributes[attribute.name])
        for attribute in definition.attr
        if attribute.name in attributes and attribute.name not in of_inputs and not attribute.name.startswith("_")
    }
    create = getattr(tf.raw_ops, op_type)
    # Some inputs have another name there; all come in the order of the definition, before the attributes.
    names = [*inspect.signature(create).parameters][: len(values)]
    return create(**dict(zip(names, values, strict=True)), **given)


def _value_of(attribute: Any) -> Any:
    kind = attribute.WhichOneof("value")
    value = getattr(attribute, kind)
    if kind == "type":
        return tf.as_dtype(value)
    return value.decode() if kind == "s" else value
