"""Compares what a whole batch gives with what its parts give: values of single rows, a mean, a sum, or neither."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from tfdist.keras_repairs.base.loss_scope import Kind


@dataclass(frozen=True)
class Split:
    """The cut of a batch in two.

    Attributes:
        rows: Rows of the whole batch.
        first: Rows of its first part.
    """

    rows: int
    first: int

    @property
    def parts(self) -> tuple[slice, slice]:
        """The rows of each part."""
        return slice(self.first), slice(self.first, self.rows)

    @property
    def shares(self) -> tuple[float, float]:
        """The part of the batch that each has."""
        return self.first / self.rows, 1 - self.first / self.rows


UNEQUAL = Split(rows=5, first=2)
"""The parts are unequal, so that a mean is no plain mean of theirs."""

EQUAL = Split(rows=4, first=2)
"""For what replicas can compute alone where each has as many samples; the first of the rows that are made up."""

ROWS, FIRST, PARTS = UNEQUAL.rows, UNEQUAL.first, UNEQUAL.parts

FREE_SIZE = 3
"""The size of a made-up dimension that is not known before the data comes."""

TOLERANCE = 2e-5
"""Of the largest number: what rounding in float32 does. More is taken for the effect of other rows, which is safe."""

_TOLERANCES = {"float16": 5e-3, "bfloat16": 4e-2}
"""The effect of rounding in 16 bits."""


OF_NETWORKS = 50
"""By how much more than in one layer rounding may count in what a network of many layers gives."""


_PIECE = 1 << 20
"""The elements that are compared at once."""

_TOGETHER: dict[Kind, Callable[[Sequence[NDArray]], NDArray]] = {
    Kind.ROWS: lambda parts: np.concatenate(parts),
    Kind.MEAN: lambda parts: (FIRST * parts[0] + (ROWS - FIRST) * parts[1]) / ROWS,
    Kind.SUM: lambda parts: parts[0] + parts[1],
}


def kinds(whole: NDArray, parts: Sequence[NDArray], tolerance: float = TOLERANCE) -> set[Kind]:
    """Returns what `whole` may be, by the values of its parts; none where a row's depends on other rows.

    A constant may be a mean, and zero a sum as well.

    Args:
        whole: The values of the whole batch.
        parts: Those of its parts.
        tolerance: Relative to the largest number, of `tolerance_of`.
    """
    return {kind for kind in Kind if _fits(kind, whole, parts) and is_same(whole, _TOGETHER[kind](parts), tolerance)}


def tolerance_of(layer: Any) -> float:
    """Returns what rounding may do to the results of a layer, relative to the largest number."""
    return tolerance_in({part.compute_dtype for part in layer._flatten_layers()})


def tolerance_in(dtypes: Iterable[str]) -> float:
    """Likewise in numbers of some dtypes, by their names."""
    return max((_TOLERANCES.get(dtype, TOLERANCE) for dtype in dtypes), default=TOLERANCE)


def comparable(leaf: Any) -> Any:
    """An output as an array; a ragged tensor, and what is no tensor, stays as it is."""
    if isinstance(leaf, tf.SparseTensor):
        leaf = tf.sparse.to_dense(leaf)
    return np.asarray(leaf) if isinstance(leaf, tf.Tensor | np.ndarray) else leaf


def is_of_own_rows(whole: Any, parts: Sequence[Any], tolerance: float) -> bool:
    """Returns whether an output of the whole batch is made of those of its parts, or the same for any part.

    Args:
        whole: An array or a ragged tensor; anything else is not looked at.
        parts: What it is for the parts.
        tolerance: Relative to the largest number, of `tolerance_of`.
    """
    if isinstance(whole, tf.RaggedTensor):
        return _is_joined(whole, parts, tolerance)
    if not isinstance(whole, np.ndarray):
        return True
    axis = row_axis(whole.shape, [part.shape for part in parts])
    if axis is not None and is_same(whole, np.concatenate(parts, axis), tolerance):
        return True
    return all(part.shape == whole.shape and np.array_equal(part, whole, equal_nan=True) for part in parts)


def row_axis(whole: Sequence[int], parts: Sequence[Sequence[int]]) -> int | None:
    """The axis of the rows: along it sizes follow from how many there are, as time steps may be folded into the rows.

    It need not be the first. The experts of a mixture return one result for each expert and each row.

    Args:
        whole: The shape of a value of the whole batch.
        parts: Its shapes for the parts.

    Returns:
        None where all parts have the shape of the whole, or where no single axis makes the difference.
    """
    shapes = [tuple(shape) for shape in (whole, *parts)]
    if len({len(shape) for shape in shapes}) > 1:
        return None
    axes = [axis for axis, sizes in enumerate(zip(*shapes, strict=True)) if len(set(sizes)) > 1]
    if not axes and whole and not whole[0]:
        return 0
    if len(axes) != 1:
        return None
    size, *of_parts = (shape[axes[0]] for shape in shapes)
    each, rest = divmod(size, ROWS)
    return axes[0] if not rest and of_parts == [FIRST * each, (ROWS - FIRST) * each] else None


def _is_joined(whole: tf.RaggedTensor, parts: Sequence[Any], tolerance: float) -> bool:
    """Returns whether the rows of a ragged tensor are those of its parts, one part after the other."""
    if any(not isinstance(part, tf.RaggedTensor) or part.ragged_rank != whole.ragged_rank for part in parts):
        return False
    joined = tf.concat(parts, axis=0)
    pieces = [(ragged.flat_values, *ragged.nested_row_splits) for ragged in (whole, joined)]
    return all(is_same(np.asarray(one), np.asarray(other), tolerance) for one, other in zip(*pieces, strict=True))


def gradient_is_that_of_parts(kind: Kind, whole: NDArray, parts: Sequence[NDArray]) -> bool:
    """Returns whether the gradient by the rows of the whole batch is made of those by the rows of its parts.

    Args:
        kind: What the value is.
        whole: The gradient of the value of the whole batch, by its rows.
        parts: That of each part's value, by its rows.
    """
    if kind is Kind.MEAN:
        parts = [parts[0] * FIRST / ROWS, parts[1] * (ROWS - FIRST) / ROWS]
    return is_same(whole, np.concatenate(parts))


def _fits(kind: Kind, whole: NDArray, parts: Sequence[NDArray]) -> bool:
    if kind is Kind.ROWS:
        return row_axis(whole.shape, [part.shape for part in parts]) == 0
    return all(part.shape == whole.shape for part in parts)


def is_same(one: NDArray, other: NDArray, tolerance: float = TOLERANCE) -> bool:
    """Returns whether two arrays are the same but for rounding."""
    if one.shape != other.shape:
        return False
    if one.dtype.kind in "biuSUO":
        return bool(np.array_equal(one, other))
    finite = (np.abs(piece[np.isfinite(piece)]) for piece in _pieces(one))
    scale = max((float(piece.max()) for piece in finite if piece.size), default=0.0)
    pieces = zip(_pieces(one), _pieces(other), strict=True)
    return all(np.allclose(*pair, rtol=0, atol=tolerance * scale, equal_nan=True) for pair in pieces)


def _pieces(array: NDArray) -> Iterator[NDArray]:
    """The elements in double precision, not all at once: the scores over a vocabulary are many."""
    flat = array.reshape(-1)
    return (flat[start : start + _PIECE].astype(np.float64) for start in range(0, flat.size, _PIECE))
