"""Repairs of Keras's products, lookups and convolutions: with a slice of a weight they compute with that.

They are functions of `keras.ops`, on which layers stand, Keras's own and a user's.
"""

from __future__ import annotations

import functools
import string
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import keras
import tensorflow as tf

from tfdist.keras_repairs.base.size_origins import with_rows_of
from tfdist.keras_repairs.tensor_parallel.position_products import matrix_labels, product_of_positions
from tfdist.keras_repairs.tensor_parallel.product_rules import as_matrix_product, labels_of, product
from tfdist.keras_repairs.tensor_parallel.row_exchanges import gathered, own_rows, summed
from tfdist.keras_repairs.tensor_parallel.rule_results import has_rows
from tfdist.keras_repairs.tensor_parallel.sliced_tensors import (
    SlicedRows,
    SlicedWeight,
    actual_of,
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
        if weight is None:
            found = _of_positions(original, matrix_labels, x1, x2)
            return original(x1, x2) if found is None else found
        rows = _rows_of(x1)
        if rows is None or x2.shape.rank != 2 or rows.shape.rank < 2:
            return original(x1, x2)
        letters = string.ascii_letters[: rows.shape.rank - 1]
        return _product(original, rows, weight, f"{letters}Y", "YZ", f"{letters}Z")

    return keeping_attributes(original, repaired)


def einsum(original: Function) -> Function:
    """Repairs `keras.ops.einsum`: of rows, whose first label is that of the batch, and a weight."""

    def repaired(subscripts: str, *operands: Any, **kwargs: Any) -> Any:
        if len(operands) != 2 or kwargs:
            return original(subscripts, *operands, **kwargs)
        x, kernel = operands[0], _read(operands[1])
        weight = _weight_of(kernel)
        if weight is None:
            found = _of_positions(functools.partial(original, subscripts), lambda *_: _terms(subscripts), x, kernel)
            return original(subscripts, x, kernel) if found is None else found
        rows = _rows_of(x)
        labels = None if rows is None else labels_of(subscripts, rows.shape.rank, kernel.shape.rank)
        if rows is None or labels is None:
            return original(subscripts, x, kernel)
        multiply = as_matrix_product(functools.partial(original, subscripts), labels, rows.dtype, kernel.dtype)
        return _product(multiply, rows, weight, *labels)

    return keeping_attributes(original, repaired)


def _terms(subscripts: str) -> list[str] | None:
    """The labels of two operands and of the result; None where an ellipsis stands for some, or not all are there."""
    terms = subscripts.replace(" ", "").replace("->", ",").split(",")
    return terms if len(terms) == 3 and "." not in subscripts else None


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

    return keeping_attributes(original, repaired)


def take(original: Function) -> Function:
    """Repairs `keras.ops.take`: a lookup of rows of a table that is cut along its rows, or along their width."""

    def repaired(x: Any, indices: Any, axis: Any = None) -> Any:
        x = _read(x)
        table = _weight_of(x)
        is_of_rows = axis == 0 and isinstance(indices, tf.Tensor) and bool(indices.shape.rank)
        if table is None or not is_of_rows or x.shape.rank != 2:
            return original(x, indices, axis=axis)
        return with_rows_of(_looked_up(table, tf.TensorShape(x.shape), indices), indices)

    return keeping_attributes(original, repaired)


def repeat(original: Function) -> Function:
    """Repairs `keras.ops.repeat`: of slices, such as the heads of keys and values."""

    def repaired(x: Any, repeats: Any, axis: Any = None) -> Any:
        found = sliced_of(x)
        if not isinstance(found, SlicedRows) or not isinstance(repeats, int) or axis in (None, *_names_of(0, x)):
            return original(x, repeats, axis=axis)
        is_along = axis in _names_of(found.axis, x)
        bounds = tuple(bound * repeats for bound in found.bounds) if is_along else found.bounds
        repeated = replace(found, slice=original(found.slice, repeats, axis=axis), bounds=bounds, _full=[])
        return standing_for(repeated, repeated.shape)

    return keeping_attributes(original, repaired)


def _names_of(axis: int, x: tf.Tensor) -> tuple[int, int]:
    return axis, axis - x.shape.rank


def keeping_attributes(original: Function, repaired: Function) -> Function:
    """Returns the repaired function, under the attributes that Keras's decorators give to the original one."""
    repaired.__dict__.update(getattr(original, "__dict__", {}))
    return repaired


def _read(value: Any) -> Any:
    """The value of a variable that is cut, with which the operation would begin as well; of a tensor that itself."""
    is_cut = isinstance(value, keras.Variable) and hasattr(getattr(value, "shard", None), "in_slices")
    return value.value if is_cut else actual_of(value)


def _weight_of(value: Any) -> SlicedWeight | None:
    found = sliced_of(value) if isinstance(value, tf.Tensor) else None
    return found if isinstance(found, SlicedWeight) else None


def _rows_of(value: Any) -> tf.Tensor | None:
    """A dense tensor with rows; None for anything else."""
    value = _read(value)
    return value if isinstance(value, tf.Tensor) and has_rows(value, sliced_of(value)) else None


def _of_positions(multiply: Function, labels_of: Function, *values: Any) -> tf.Tensor | None:
    """A product of what `--context` cuts along positions, see `product_of_positions`; None for any other."""
    if tf.executing_eagerly() or not any(isinstance(sliced_of(value), SlicedRows) for value in values):
        return None
    tensors = [actual_of(tf.convert_to_tensor(value)) for value in values]
    labels = labels_of(*tensors)
    operands = [(tensor, sliced_of(tensor)) for tensor in tensors]
    found = None if labels is None else product_of_positions(multiply, operands, labels)
    return None if found is None else standing_for(found, found.shape)


def _product(*given: Any) -> tf.Tensor:
    """A product as `product` takes it, in the graph that is traced."""
    result = product(*given)
    return standing_for(result, result.shape) if isinstance(result, SlicedRows) else result


def _looked_up(table: SlicedWeight, shape: tf.TensorShape, ids: tf.Tensor) -> tf.Tensor:
    """The rows of a table for this worker's ids, of which no other worker than those that have them reads them."""
    ids = tf.where(ids < 0, ids + tf.cast(shape[0], ids.dtype), ids)
    if table.stored is None:
        return _rows_by_ids(table.slice, ids, table, shape)

    @tf.custom_gradient
    def lookup(stored: tf.Tensor) -> tuple[tf.Tensor, Function]:
        rows = _rows_by_ids(stored, ids, table, shape)

        def gradient(upstream: tf.Tensor) -> Any:
            values = tf.reshape(upstream, [-1, shape[1]])
            slices = tf.IndexedSlices(values, tf.reshape(ids, [-1]), tf.constant(shape.as_list(), tf.int64))
            return table.gradient(slices)

        return rows, gradient

    return lookup(table.source)


def _rows_by_ids(stored: tf.Tensor, ids: tf.Tensor, table: SlicedWeight, shape: tf.TensorShape) -> tf.Tensor:
    own = tf.cast(stored, table.slice.dtype)
    asked, counts = gathered(_checked_ids(ids, int(shape[0])), table.group)
    if table.axis == 1:
        return own_rows(tf.gather(own, asked), asked.shape.rank, table.bounds, counts, table.group)
    start, stop = table.bounds[table.group.share : table.group.share + 2]
    is_here = tf.logical_and(asked >= start, asked < stop)
    found = tf.gather(own, tf.where(is_here, asked - start, tf.zeros_like(asked)))
    return summed(tf.where(is_here[..., tf.newaxis], found, tf.zeros_like(found)), counts, table.group)


def _checked_ids(ids: tf.Tensor, rows: int) -> tf.Tensor:
    return checked(ids, rows, f"A lookup in a table with the rows 0 to {rows - 1}. Received ids beyond them:")


def checked(ids: tf.Tensor, size: int, said: str) -> tf.Tensor:
    """The ids, where all of them are below a size and none is negative, as TensorFlow's own operations expect on CPUs.

    Args:
        said: What the error says before it names the others.
    """
    if settings_of(tf.distribute.get_strategy()).on_gpus:
        return ids
    is_valid = tf.logical_and(ids >= 0, ids < size)
    check = tf.debugging.Assert(tf.reduce_all(is_valid), [said, tf.boolean_mask(ids, tf.logical_not(is_valid))])
    with tf.control_dependencies([] if check is None else [check]):
        return tf.identity(ids)
