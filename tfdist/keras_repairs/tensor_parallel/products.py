"""Repairs of Keras's products, lookups and convolutions: with a slice of a weight they compute with that.

They are functions of `keras.ops`, on which layers stand, Keras's own and a user's.
"""

from __future__ import annotations

import string
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import keras
import tensorflow as tf
from keras.src.backend.common import global_state

from tfdist.keras_repairs.base.size_origins import sized_as
from tfdist.keras_repairs.tensor_parallel.row_exchanges import (
    gathered,
    own_rows,
    slices_of_all,
    summed,
)
from tfdist.keras_repairs.tensor_parallel.sliced_tensors import (
    SlicedRows,
    SlicedWeight,
    gathered_once,
    sliced_of,
    standing_for,
)
from tfdist.runtime.strategy_settings import settings_of

Function = Callable[..., Any]


def matmul(original: Function) -> Function:
    """Repairs `keras.ops.matmul`: of rows `[rows, ..., features]` and a weight of two dimensions."""

    def repaired(x1: Any, x2: Any) -> Any:
        x2 = _read(x2)
        weight = _weight_of(x2)
        x1 = _rows_of(x1) if weight is not None else x1
        if weight is None or x1 is None or x2.shape.rank != 2 or x1.shape.rank < 2:
            return original(x1, x2)
        letters = string.ascii_letters[: x1.shape.rank - 1]
        return _product(original, x1, weight, f"{letters}Y", "YZ", f"{letters}Z")

    return _keeping(original, repaired)


def einsum(original: Function) -> Function:
    """Repairs `keras.ops.einsum`: of rows, whose first label is that of the batch, and a weight."""

    def repaired(subscripts: str, *operands: Any, **kwargs: Any) -> Any:
        if len(operands) != 2 or kwargs:
            return original(subscripts, *operands, **kwargs)
        x, kernel = operands[0], _read(operands[1])
        weight = _weight_of(kernel)
        rows = None if weight is None else _rows_of(x)
        labels = None if rows is None else _labels(subscripts, rows.shape.rank, kernel.shape.rank)
        if weight is None or rows is None or labels is None:
            return original(subscripts, x, kernel)
        return _product(lambda x, kernel: original(subscripts, x, kernel), rows, weight, *labels)

    return _keeping(original, repaired)


def conv(original: Function) -> Function:
    """Repairs `keras.ops.conv`: of a kernel that is cut along its channels."""

    def repaired(inputs: Any, kernel: Any, *args: Any, **kwargs: Any) -> Any:
        kernel = _read(kernel)
        weight = _weight_of(kernel)
        rows = None if weight is None else _rows_of(inputs)
        if rows is None or weight is None:
            return original(inputs, kernel, *args, **kwargs)
        rank = kernel.shape.rank
        data_format = kwargs.get("data_format", args[2] if len(args) > 2 else None)
        is_last = (data_format or keras.config.image_data_format()) == "channels_last"
        places = string.ascii_letters[1 : rank - 1]
        labels = ("a{}X", "a{}Z") if is_last else ("aX{}", "aZ{}")
        channels = rows.shape[-1 if is_last else 1]
        if weight.axis < rank - 2 or channels != kernel.shape[-2]:
            return original(inputs, kernel, *args, **kwargs)
        given, result = (label.format(places) for label in labels)
        return _product(
            lambda x, kernel: original(x, kernel, *args, **kwargs), rows, weight, given, f"{places}XZ", result
        )

    return _keeping(original, repaired)


def take(original: Function) -> Function:
    """Repairs `keras.ops.take`: a lookup of rows of a table that is cut along its rows, or along their width."""

    def repaired(x: Any, indices: Any, axis: Any = None) -> Any:
        x = _read(x)
        table = _weight_of(x)
        is_of_rows = axis == 0 and isinstance(indices, tf.Tensor) and bool(indices.shape.rank)
        if table is None or table.stored is None or not is_of_rows or x.shape.rank != 2:
            return original(x, indices, axis=axis)
        return _looked_up(table, tf.TensorShape(x.shape), indices)

    return _keeping(original, repaired)


def repeat(original: Function) -> Function:
    """Repairs `keras.ops.repeat`: of slices along the axis that is repeated, such as the heads of keys and values."""

    def repaired(x: Any, repeats: Any, axis: Any = None) -> Any:
        found = sliced_of(x)
        if not isinstance(found, SlicedRows) or not isinstance(repeats, int) or axis not in _names_of(found.axis, x):
            return original(x, repeats, axis=axis)
        bounds = tuple(bound * repeats for bound in found.bounds)
        repeated = replace(found, slice=original(found.slice, repeats, axis=axis), bounds=bounds, _full=[])
        return standing_for(repeated, repeated.shape)

    return _keeping(original, repaired)


def _names_of(axis: int, x: tf.Tensor) -> tuple[int, int]:
    return axis, axis - x.shape.rank


def silu(original: Function) -> Function:
    """Repairs `keras.ops.silu`, which is one operation with a gradient of its own: of slices it is two."""

    def repaired(x: Any) -> Any:
        return x * tf.sigmoid(x) if isinstance(x, tf.Tensor) and sliced_of(x) is not None else original(x)

    return _keeping(original, repaired)


def _keeping(original: Function, repaired: Function) -> Function:
    """The repaired function, under the attributes that Keras's decorators give to the original one."""
    repaired.__dict__.update(getattr(original, "__dict__", {}))
    return repaired


def _read(value: Any) -> Any:
    """The value of a variable that is cut, with which the operation would begin as well."""
    is_cut = isinstance(value, keras.Variable) and hasattr(getattr(value, "shard", None), "in_slices")
    return value.value if is_cut else value


def _weight_of(value: Any) -> SlicedWeight | None:
    found = sliced_of(value) if isinstance(value, tf.Tensor) else None
    return found if isinstance(found, SlicedWeight) else None


def _rows_of(value: Any) -> tf.Tensor | None:
    """A dense tensor with rows; None for anything else."""
    value = _read(value)
    is_weight = isinstance(value, tf.Tensor) and _weight_of(value) is not None
    return value if isinstance(value, tf.Tensor) and value.shape.rank and not is_weight else None


def _labels(subscripts: str, rank: int, rank_of_kernel: int) -> tuple[str, str, str] | None:
    """The labels of rows, kernel and result, of dimensions that an ellipsis stands for, too; None where the first
    label is not that of the rows."""
    given, arrow, result = subscripts.replace(" ", "").partition("->")
    terms = given.split(",")
    if not arrow or len(terms) != 2 or "." in terms[1]:
        return None
    x, kernel = terms
    if "..." in x:
        used = set(subscripts)
        others = [letter for letter in string.ascii_letters if letter not in used]
        open_labels = "".join(others[: rank - len(x.replace("...", ""))])
        x, result = x.replace("...", open_labels), result.replace("...", open_labels)
    is_usual = len(x) == len(set(x)) == rank and len(kernel) == len(set(kernel)) == rank_of_kernel
    has_rows = x[:1] == result[:1] and x[:1] not in kernel
    return (x, kernel, result) if is_usual and has_rows else None


def _product(
    multiply: Function, rows: tf.Tensor, weight: SlicedWeight, of_x: str, of_kernel: str, of_result: str
) -> tf.Tensor:
    """A product of rows and a weight of which each worker has a slice.

    Args:
        multiply: Takes the product of rows and a kernel.
        rows: This worker's.
        weight: What this worker has of the weight.
        of_x: A label for each dimension of the rows, that of the rows first.
        of_kernel: The same of the kernel.
        of_result: The same of the result, that of the rows first.
    """
    label = of_kernel[weight.axis]
    if label in of_x:
        x, counts = _cut_rows(rows, of_x.index(label), weight)
    else:
        x, counts = gathered_once(_full(rows), weight.group, _call_around())
    result = multiply(x, weight.slice)
    if label not in of_result:
        return sized_as(summed(result, counts, weight.group), rows)
    shape = [rows.shape[0], *result.shape[1:]]
    axis = of_result.index(label)
    shape[axis] = weight.bounds[-1]
    return standing_for(SlicedRows(result, axis, weight.bounds, weight.group, counts, rows), shape)


def _cut_rows(rows: tf.Tensor, axis: int, weight: SlicedWeight) -> tuple[tf.Tensor, tf.Tensor]:
    """The rows of all workers, cut along an axis as a weight is: as they lie there already, or exchanged."""
    found = sliced_of(rows)
    is_alike = found is not None and (found.bounds, found.group) == (weight.bounds, weight.group)
    if isinstance(found, SlicedRows) and found.axis == axis and is_alike:
        return found.slice, found.counts
    return slices_of_all(_full(rows), axis, weight.bounds, weight.group)


def _call_around() -> Any:
    """Stands for the call of the layer in which a layer multiplies, such as attention with its projections; None
    outside of one."""
    scopes = global_state.get_global_attribute("name_scope_stack") or []
    around = scopes[-2] if len(scopes) > 1 else None
    caller = getattr(around, "caller", None)
    return around if isinstance(caller, keras.Layer) and not isinstance(caller, keras.Model) else None


def _full(rows: tf.Tensor) -> tf.Tensor:
    found = sliced_of(rows)
    return rows if found is None else found.full()


def _looked_up(table: SlicedWeight, shape: tf.TensorShape, ids: tf.Tensor) -> tf.Tensor:
    """The rows of a table for this worker's ids, of which no other worker than those that have them reads them."""
    ids = tf.where(ids < 0, ids + tf.cast(shape[0], ids.dtype), ids)

    @tf.custom_gradient
    def lookup(stored: tf.Tensor) -> tuple[tf.Tensor, Function]:
        rows = _rows_by_ids(stored, ids, table, shape)

        def gradient(upstream: tf.Tensor) -> Any:
            values = tf.reshape(upstream, [-1, shape[1]])
            slices = tf.IndexedSlices(values, tf.reshape(ids, [-1]), tf.constant(shape.as_list(), tf.int64))
            return table.gradient(slices)

        return rows, gradient

    return sized_as(lookup(table.source), ids)


def _rows_by_ids(stored: tf.Tensor, ids: tf.Tensor, table: SlicedWeight, shape: tf.TensorShape) -> tf.Tensor:
    own = tf.cast(stored, table.slice.dtype)
    asked, counts = gathered(_checked(ids, int(shape[0])), table.group)
    if table.axis == 1:
        return own_rows(tf.gather(own, asked), asked.shape.rank, table.bounds, counts, table.group)
    start, stop = table.bounds[table.group.share : table.group.share + 2]
    is_here = tf.logical_and(asked >= start, asked < stop)
    found = tf.gather(own, tf.where(is_here, asked - start, tf.zeros_like(asked)))
    return summed(tf.where(is_here[..., tf.newaxis], found, tf.zeros_like(found)), counts, table.group)


def _checked(ids: tf.Tensor, rows: int) -> tf.Tensor:
    """The ids, where all of them are rows of a table, as TensorFlow's own lookup expects on CPUs."""
    if settings_of(tf.distribute.get_strategy()).on_gpus:
        return ids
    is_row = tf.logical_and(ids >= 0, ids < rows)
    said = [f"A lookup in a table with the rows 0 to {rows - 1}. Received ids beyond them:"]
    check = tf.debugging.Assert(tf.reduce_all(is_row), [*said, tf.boolean_mask(ids, tf.logical_not(is_row))])
    with tf.control_dependencies([] if check is None else [check]):
        return tf.identity(ids)
