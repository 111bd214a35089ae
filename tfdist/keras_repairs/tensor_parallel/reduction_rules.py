"""Sums, means and the like of slices: over what each worker has in full, and over what is cut."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from tfdist.keras_repairs.base.size_origins import sized_as, with_rows_of
from tfdist.keras_repairs.tensor_parallel.row_exchanges import sum_of_weights, summed
from tfdist.keras_repairs.tensor_parallel.rule_results import (
    Compute,
    Input,
    Result,
    Rule,
    rows_like,
    value_of,
    weight_like,
)
from tfdist.keras_repairs.tensor_parallel.sliced_tensors import (
    FullTensor,
    SlicedRows,
    SlicedTensor,
    SlicedWeight,
    note_of_global_batch,
)


def _reduction(
    compute: Compute, inputs: Sequence[Input], attributes: Mapping[str, Any], *, adds: bool = False, mean: bool = False
) -> Result:
    """A reduction over other dimensions than that of the rows; over what is cut where it adds up what workers have."""
    (_, part), (axes_tensor, other) = inputs
    axes = tf.get_static_value(axes_tensor) if other is None else None
    if not isinstance(part, SlicedTensor) or axes is None:
        return None
    over = {int(axis) % part.slice.shape.rank for axis in axes.reshape(-1)}
    is_kept, is_of_rows = bool(value_of(attributes["keep_dims"])), isinstance(part, SlicedRows)
    if (is_of_rows and 0 in over) or (part.axis in over and not (adds and (part.slice.dtype.is_floating or not mean))):
        return None
    result = compute(part.slice, axes_tensor)
    if part.axis in over:
        return [_summed(part, _as_part_of_mean(result, part) if mean else result, is_kept=is_kept)]
    axis = part.axis if is_kept else part.axis - sum(each < part.axis for each in over)
    if isinstance(part, SlicedRows):
        return [rows_like(part, result, axis)]
    assert isinstance(part, SlicedWeight)
    return [weight_like(part, result, axis, lambda: compute(part.full(), axes_tensor))]


def _as_part_of_mean(mean: tf.Tensor, part: SlicedTensor) -> tf.Tensor:
    """What the mean of a slice adds to that of all slices."""
    start, stop = part.bounds[part.group.share : part.group.share + 2]
    return mean * tf.constant((stop - start) / part.bounds[-1], mean.dtype)


def _summed(part: SlicedTensor, partial: tf.Tensor, *, is_kept: bool) -> FullTensor:
    if not isinstance(part, SlicedRows):
        return FullTensor(sized_as(note_of_global_batch(sum_of_weights(partial, part.group)), partial))
    return FullTensor(with_rows_of(summed(partial, part.counts, part.group), part.origin), part if is_kept else None)


RULES: Mapping[str, Rule] = {
    **dict.fromkeys(("All", "Any", "Max", "Min", "Prod"), _reduction),
    "Mean": functools.partial(_reduction, adds=True, mean=True),
    "Sum": functools.partial(_reduction, adds=True),
}
