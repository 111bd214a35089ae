"""Products of rows and weights of which each worker has a slice, and of slices with each other."""

from __future__ import annotations

import functools
import string
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import keras
import tensorflow as tf
from keras.src.backend.common import global_state

from tfdist.keras_repairs.base.size_origins import with_rows_of
from tfdist.keras_repairs.tensor_parallel.matrix_products import matrix_product
from tfdist.keras_repairs.tensor_parallel.position_slices import group_of_context
from tfdist.keras_repairs.tensor_parallel.row_exchanges import (
    gathered,
    resliced,
    slices_of_all,
    summed,
    whole_rows_of_all,
)
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
    Part,
    SlicedRows,
    SlicedWeight,
    gathered_once,
    sliced_of,
)
from tfdist.sharding.axis_cut import even_bounds
from tfdist.sharding.mesh import ShardGroup

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


@dataclass(frozen=True)
class _Cut:
    """Where a product is cut: along a label of its result.

    Attributes:
        label: The label.
        bounds: The places along it where the slices begin, and where the last one ends.
        group: The workers that have the slices.
    """

    label: str
    bounds: tuple[int, ...]
    group: ShardGroup

    def fitting(self, operand: Input, labels: str) -> tf.Tensor:
        """An operand for the rows of all workers, cut where it has the label."""
        tensor, part = operand
        axis = labels.find(self.label)
        if isinstance(part, SlicedRows):
            if (part.axis, part.bounds) == (axis, self.bounds):
                return part.slice
            if axis == -1:
                return whole_rows_of_all(part.slice, part.axis, part.bounds, self.group)
            if part.axis != axis:
                return resliced(part.slice, part.axis, part.bounds, axis, self.bounds, self.group)
            tensor = part.full()
        elif not has_rows(tensor):
            whole = of_all(tensor, self.group)
            start, stop = self.bounds[self.group.share : self.group.share + 2]
            return whole if axis == -1 else whole[(*[slice(None)] * axis, slice(start, stop))]
        if axis == -1:
            return gathered(tensor, self.group)[0]
        return slices_of_all(tensor, axis, self.bounds, self.group)[0]


def product_of_positions(multiply: Compute, operands: Sequence[Input], labels: Sequence[str]) -> SlicedRows | None:
    """A product of two tensors of which one is cut, in a run with `--context`; None where it needs full operands.

    It is cut along a label that both operands have that have rows: attention along its heads, and a product with a
    weight along the positions. Without such a label it is cut along that of one of them, and the other is gathered.

    Args:
        multiply: Takes both operands.
        operands: Of rows, or the same on all workers.
        labels: Of the dimensions of each operand and of the result; that of the rows comes first.
    """
    group = group_of_context()
    parts = [part for _, part in operands if isinstance(part, SlicedRows)]
    if group is None or not parts or any(part.group != group for part in parts):
        return None
    cut = _cut_of(operands, labels, group)
    if cut is None:
        return None
    result = multiply(*map(cut.fitting, operands, labels))
    return rows_like(parts[0], result, labels[-1].index(cut.label), bounds=cut.bounds)


def _cut_of(operands: Sequence[Input], labels: Sequence[str], group: ShardGroup) -> _Cut | None:
    """Along which label a product is cut; None where it cannot be."""
    *given, of_result = labels
    with_rows = [term for term, (tensor, part) in zip(given, operands, strict=True) if has_rows(tensor, part)]
    row = of_result[:1]
    others = [each for each in zip(given, operands, strict=True) if each[0] not in with_rows]
    if any(term[:1] != row for term in with_rows) or any(len(set(term)) < len(term) for term in labels):
        return None
    if any(row in term or part is not None or not is_of_all(tensor) for term, (tensor, part) in others):
        return None
    sizes = {
        label: size
        for term, (tensor, _) in zip(given, operands, strict=True)
        for label, size in zip(term, tensor.shape.as_list(), strict=True)
    }
    found = {term[part.axis]: part.bounds for term, (_, part) in zip(given, operands, strict=True) if _is_cut(part)}
    order = [*found, *of_result[1:]]
    usable = [label for label in order if label in of_result[1:] and (sizes.get(label) or 0) >= len(group.workers)]
    of_one = [label for label in usable if any(label in term for term in with_rows)]
    of_both = [label for label in of_one if all(label in term for term in with_rows)]
    for label in (*of_both, *of_one):
        return _Cut(label, found.get(label) or even_bounds(sizes[label], len(group.workers)), group)
    return None


def _is_cut(part: Part) -> bool:
    return isinstance(part, SlicedRows)


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
    labels = matrix_labels(*(tensor for tensor, _ in inputs), is_turned)
    found = None if labels is None else product_of_positions(compute, inputs, labels)
    return None if found is None else [found]


def matrix_labels(a: tf.Tensor, b: tf.Tensor, is_turned: Sequence[bool] = (False, False)) -> list[str] | None:
    """Labels of the dimensions of matrices, or of rows of them, that are multiplied, and of the result; None where one
    matrix may be multiplied by several."""
    ranks = a.shape.rank, b.shape.rank
    outer = zip(reversed(a.shape[:-2]), reversed(b.shape[:-2]), strict=False)
    if min(ranks) < 2 or any(1 in sizes and sizes[0] != sizes[1] for sizes in outer):
        return None
    letters = string.ascii_letters[: max(ranks) - 2]
    of_a, of_b = (letters[len(letters) - rank + 2 :] for rank in ranks)
    return [of_a + ("YX" if is_turned[0] else "XY"), of_b + ("ZY" if is_turned[1] else "YZ"), f"{letters}XZ"]


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
