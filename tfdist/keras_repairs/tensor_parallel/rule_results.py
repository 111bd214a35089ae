"""What a rule for an operation is given, and what it returns."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import tensorflow as tf
from tensorflow.python.eager import record
from tensorflow.python.framework import op_def_registry

from tfdist.keras_repairs.base.replica_step import current_step
from tfdist.keras_repairs.base.size_origins import depends_on_batch
from tfdist.keras_repairs.tensor_parallel.row_exchanges import shared
from tfdist.keras_repairs.tensor_parallel.sliced_tensors import (
    FullTensor,
    Part,
    SlicedRows,
    SlicedTensor,
    SlicedWeight,
    SumOfSlices,
    is_of_global_batch,
)
from tfdist.sharding.mesh import ShardGroup

Input: TypeAlias = tuple[tf.Tensor, Part]
"""An input of an operation, and what this worker has of it where that is a slice."""

Compute: TypeAlias = Callable[..., Any]
Result: TypeAlias = Sequence[SlicedTensor | FullTensor | SumOfSlices] | None
"""What this worker has of each result; None where the operation needs full inputs."""

Rule: TypeAlias = Callable[[Compute, Sequence[Input], Mapping[str, Any]], Result]


def rows_like(part: SlicedRows, result: tf.Tensor, axis: int | None = None, **changed: Any) -> SlicedRows:
    """A slice that follows from one of rows, cut along some axis, by default the same."""
    return replace(part, slice=result, axis=part.axis if axis is None else axis, _full=[], **changed)


def weight_like(part: SlicedWeight, result: tf.Tensor, axis: int, full: Callable[[], tf.Tensor], **changed: Any) -> Any:
    """A slice that follows from one of a weight."""
    return SlicedWeight(result, axis, changed.get("bounds", part.bounds), part.group, full)


def is_of_all(tensor: tf.Tensor) -> bool:
    """Returns whether a tensor is the same on all workers: what follows from a worker's own rows is for these alone."""
    step = current_step()
    sizes = () if step is None else (step.share.samples, step.share.rows, step.share.first)
    return not depends_on_batch(tensor, is_of_global_batch, sizes)


def has_rows(tensor: tf.Tensor, part: Part = None) -> bool:
    """Returns whether the first dimension of a tensor is that of rows, of which each worker has its own.

    Where a later one is not known and the first one is, the rows are elsewhere: time steps may come first.
    """
    if isinstance(part, SlicedWeight) or not tensor.shape.rank:
        return False
    if isinstance(part, SlicedRows) or tensor.shape[0] is None:
        return True
    return tensor.shape.is_fully_defined() and depends_on_batch(tensor)


def of_all(tensor: tf.Tensor, group: ShardGroup) -> tf.Tensor:
    """A tensor that is the same on all workers, for what each computes with it of slices.

    Of a gradient by it a worker has what comes from its slice.
    """
    is_recorded = tensor.dtype.is_floating and record.should_record_backprop([tensor])
    return shared(tensor, group) if is_recorded else tensor


def computed(op_type: str, attributes: Mapping[str, Any], *inputs: tf.Tensor) -> Any:
    """The results of an operation of this type with other inputs, as TensorFlow's own functions create it."""
    definition = op_def_registry.get(op_type)
    arguments = definition.input_arg
    of_inputs = {name for argument in arguments for name in (argument.type_attr, argument.number_attr)}
    values = [list(inputs)] if arguments[0].number_attr else list(inputs)
    given = {
        attribute.name: value_of(attributes[attribute.name])
        for attribute in definition.attr
        if attribute.name in attributes and attribute.name not in of_inputs and not attribute.name.startswith("_")
    }
    create = getattr(tf.raw_ops, op_type)
    # Some inputs have another name there; all come in the order of the definition, before the attributes.
    names = [*inspect.signature(create).parameters][: len(values)]
    return create(**dict(zip(names, values, strict=True)), **given)


def value_of(attribute: Any) -> Any:
    """The value of an operation's attribute."""
    kind = attribute.WhichOneof("value")
    value = getattr(attribute, kind)
    if kind == "type":
        return tf.as_dtype(value)
    if kind == "list":
        return list(value.i)
    return value.decode() if kind == "s" else value
