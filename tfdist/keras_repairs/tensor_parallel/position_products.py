"""Products of rows that `--context` cuts along positions, with one another and with whole weights."""

from __future__ import annotations

import string
from collections.abc import Sequence
from dataclasses import dataclass

import tensorflow as tf

from tfdist.keras_repairs.tensor_parallel.position_slices import group_of_context
from tfdist.keras_repairs.tensor_parallel.row_exchanges import (
    gathered,
    resliced,
    slices_of_all,
    whole_rows_of_all,
)
from tfdist.keras_repairs.tensor_parallel.rule_results import Compute, Input, has_rows, is_of_all, of_all, rows_like
from tfdist.keras_repairs.tensor_parallel.sliced_tensors import SlicedRows
from tfdist.sharding.axis_cut import even_bounds
from tfdist.sharding.mesh import ShardGroup


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
        if size is not None
    }
    parts = [(term, part) for term, (_, part) in zip(given, operands, strict=True) if isinstance(part, SlicedRows)]
    found = {term[part.axis]: part.bounds for term, part in parts}
    order = [*found, *of_result[1:]]
    usable = [label for label in order if label in of_result[1:] and sizes.get(label, 0) >= len(group.workers)]
    of_one = [label for label in usable if any(label in term for term in with_rows)]
    of_both = [label for label in of_one if all(label in term for term in with_rows)]
    for label in (*of_both, *of_one):
        return _Cut(label, found.get(label) or even_bounds(sizes[label], len(group.workers)), group)
    return None
