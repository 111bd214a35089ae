"""Products of rows and weights of which each worker has a slice, and of slices with each other."""

from __future__ import annotations

import functools
import string
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import keras
import tensorflow as tf
from keras.src.backend.common import global_state

from tfdist.keras_repairs.base.size_origins import with_rows_of
from tfdist.keras_repairs.tensor_parallel.matrix_products import matrix_product
from tfdist.keras_repairs.tensor_parallel.position_products import matrix_labels, product_of_positions
from tfdist.keras_repairs.tensor_parallel.position_slices import group_of_context
from tfdist.keras_repairs.tensor_parallel.row_exchanges import slices_of_all, summed
from tfdist.keras_repairs.tensor_parallel.rule_results import (
    Compute,
    Input,
    Result,
    Rule,
    has_rows,
    is_of_all,
    of_all,
    rows_like,
    value_of,
    weight_like,
)
from tfdist.keras_repairs.tensor_parallel.sliced_tensors import (
    FullTensor,
    SlicedRows,
    SlicedWeight,
    gathered_once,
    sliced_of,
)

Function = Callable[..., Any]


def product(
    multiply: Function, rows: tf.Tensor, weight: SlicedWeight, of_x: str, of_kernel: str, of_result: str
) -> SlicedRows | tf.Tensor:
    """A product of rows and a weight of which each worker has a slice: a slice of it, or this worker's rows of the sum
    of the workers' products.

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
        return with_rows_of(summed(result, counts, weight.group), rows)
    return SlicedRows(result, of_result.index(label), weight.bounds, weight.group, counts, rows)


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


def labels_of(subscripts: str, rank: int, rank_of_kernel: int) -> tuple[str, str, str] | None:
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


def _matrix_product(compute: Compute, inputs: Sequence[Input], attributes: Mapping[str, Any]) -> Result:
    (a, of_a), (b, of_b) = inputs
    names = ("transpose_a", "transpose_b") if "transpose_a" in attributes else ("adj_x", "adj_y")
    is_turned = [bool(value_of(attributes[name])) for name in names]
    ranks = a.shape.rank, b.shape.rank
    if isinstance(of_b, SlicedWeight) and ranks[1] == 2 and has_rows(a, of_a):
        letters = string.ascii_letters[: ranks[0] - 1]
        labels = f"{letters}Y", "ZY" if is_turned[1] else "YZ", f"{letters}Z"
        return None if is_turned[0] else _part_of(product(compute, a, of_b, *labels))
    if isinstance(of_a, SlicedWeight) and ranks[0] == 2 and ranks[1] > 2 and has_rows(b, of_b):
        letters = string.ascii_letters[: ranks[1] - 2]
        labels = letters + ("ZY" if is_turned[1] else "YZ"), "YX" if is_turned[0] else "XY", f"{letters}XZ"
        return _part_of(product(_swapped(compute), b, of_a, *labels))
    if isinstance(of_a, SlicedRows) or isinstance(of_b, SlicedRows):
        return _batch_product(compute, inputs) or _product_of_matrices(compute, inputs, is_turned)
    return _weight_product(compute, inputs, is_turned) if ranks == (2, 2) else None


def _product_of_matrices(compute: Compute, inputs: Sequence[Input], is_turned: Sequence[bool]) -> Result:
    (a, _), (b, _) = inputs
    labels = matrix_labels(a, b, is_turned)
    found = None if labels is None else product_of_positions(compute, inputs, labels)
    return None if found is None else [found]


def _part_of(result: SlicedRows | tf.Tensor) -> Result:
    return [result if isinstance(result, SlicedRows) else FullTensor(result)]


def _weight_product(compute: Compute, inputs: Sequence[Input], is_turned: list[bool]) -> Result:
    """A product of a weight, cut along an axis of the result, and of what is the same on all workers."""
    for place, (_, part) in enumerate(inputs):
        other, of_other = inputs[1 - place]
        if not isinstance(part, SlicedWeight) or of_other is not None or not is_of_all(other):
            continue
        if part.axis != (place if not is_turned[place] else 1 - place):
            return None

        multiply = compute if place == 0 else _swapped(compute)
        own, full = multiply(part.slice, of_all(other, part.group)), part.full
        return [weight_like(part, own, place, functools.partial(_later, multiply, full, other))]
    return None


def _later(multiply: Function, weight: Callable[[], tf.Tensor], other: tf.Tensor) -> tf.Tensor:
    return multiply(weight(), other)


def _swapped(multiply: Function) -> Function:
    return lambda first, second: multiply(second, first)


def _batch_product(compute: Compute, inputs: Sequence[Input]) -> Result:
    """A product of matrices, where workers have other matrices: those of some heads."""
    first, second = (part for _, part in inputs)
    if not isinstance(first, SlicedRows) or not isinstance(second, SlicedRows):
        return None
    rank = first.slice.shape.rank
    is_alike = second.slice.shape.rank == rank and first.is_cut_like(second)
    return [rows_like(first, compute(first.slice, second.slice))] if is_alike and first.axis < rank - 2 else None


def _einsum(compute: Compute, inputs: Sequence[Input], attributes: Mapping[str, Any]) -> Result:
    equation = value_of(attributes["equation"])
    if not any(isinstance(part, SlicedWeight) for _, part in inputs):
        return _einsum_of_rows(compute, inputs, equation)
    if len(inputs) != 2:
        return None
    is_first = isinstance(inputs[0][1], SlicedWeight)
    (x, of_x), (kernel, weight) = (inputs[1], inputs[0]) if is_first else inputs
    given, _arrow, result = equation.partition("->")
    terms = given.split(",")[:: -1 if is_first else 1]
    labels = labels_of(f"{terms[0]},{terms[1]}->{result}", x.shape.rank or 0, kernel.shape.rank)
    if labels is None or not has_rows(x, of_x) or not isinstance(weight, SlicedWeight):
        return None
    multiply = as_matrix_product(_swapped(compute) if is_first else compute, labels, kernel.dtype)
    return _part_of(product(multiply, x, weight, *labels))


def _einsum_of_rows(compute: Compute, inputs: Sequence[Input], equation: str) -> Result:
    """Products along other labels than those of the rows and of what is cut, which all terms have."""
    parts = [part for _, part in inputs if isinstance(part, SlicedRows)]
    given, _arrow, result = equation.replace(" ", "").partition("->")
    terms = given.split(",")
    if "." not in given and len(terms) == 2 and group_of_context() is not None:
        multiply = as_matrix_product(compute, (*terms, result), *(tensor.dtype for tensor, _ in inputs))
        found = product_of_positions(multiply, inputs, (*terms, result))
        return None if found is None else [found]
    if "." in given or len(parts) != len(inputs) or len({(part.bounds, part.group) for part in parts}) != 1:
        return None
    labels = {term[part.axis] for term, part in zip(terms, parts, strict=True)}
    rows = {term[0] for term in terms} | {result[:1]}
    if len(labels) != 1 or len(rows) != 1:
        return None
    (label,) = labels
    if any(term.count(label) != 1 for term in (*terms, result)):
        return None
    multiply = as_matrix_product(compute, (*terms, result), parts[0].slice.dtype)
    return [rows_like(parts[0], multiply(*(part.slice for part in parts)), result.index(label))]


def as_matrix_product(compute: Compute, labels: Sequence[str], *dtypes: tf.DType) -> Compute:
    """Returns a sum of products as one product of matrices; `compute`, which takes it, where it is none.

    Args:
        compute: Takes the operands.
        labels: Of the dimensions of each operand and of the result.
        dtypes: Of the operands.
    """
    is_of_floats = len(set(dtypes)) == 1 and dtypes[0].is_floating
    is_usual = len(labels) == 3 and all(len(term) == len(set(term)) for term in labels)
    found = matrix_product(*labels) if is_of_floats and is_usual else None
    return compute if found is None else found


RULES: Mapping[str, Rule] = {
    "BatchMatMulV2": _matrix_product,
    "BatchMatMulV3": _matrix_product,
    "Einsum": _einsum,
    "MatMul": _matrix_product,
}
