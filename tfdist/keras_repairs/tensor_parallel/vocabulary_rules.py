"""Softmax, crossentropy and the largest score over an axis that is cut, such as a vocabulary: the scores stay cut.

Each worker reduces its slice of the scores to some numbers a position, and these alone are sent (section 3 of Shoeybi
et al., 2019, arXiv:1909.08053).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf
from keras.src.backend.tensorflow import nn

from tfdist.keras_repairs.base.size_origins import with_rows_of
from tfdist.keras_repairs.tensor_parallel.keras_products import checked
from tfdist.keras_repairs.tensor_parallel.row_exchanges import gathered, own_rows, slices_of_all
from tfdist.keras_repairs.tensor_parallel.rule_results import Compute, Input, Result, Rule, rows_like, value_of
from tfdist.keras_repairs.tensor_parallel.sliced_tensors import (
    FullTensor,
    SlicedRows,
    actual_of,
    sliced_of,
    standing_for,
)

Function = Callable[..., Any]


def sparse_categorical_crossentropy(original: Function) -> Function:
    """Repairs `sparse_categorical_crossentropy` of Keras's backend: of scores that are cut along their last axis."""

    def repaired(target: Any, output: Any, from_logits: bool = False, axis: int = -1) -> Any:
        found = _of_positions(original, target, output, axis, from_logits=from_logits)
        if found is not None:
            return found
        scores = _scores_of(output, axis, from_logits=from_logits, name="sparse_categorical_crossentropy")
        labels = tf.cast(actual_of(tf.convert_to_tensor(target)), tf.int64) if scores is not None else None
        if scores is None or labels is None or labels.shape.rank is None or sliced_of(target) is not None:
            return original(target, output, from_logits=from_logits, axis=axis)
        rank = scores.slice.shape.rank
        if labels.shape.rank == rank and labels.shape[-1] == 1:
            labels = tf.squeeze(labels, -1)
        if labels.shape.rank != rank - 1 or not labels.shape[1:].is_compatible_with(scores.shape[1:-1]):
            return original(target, output, from_logits=from_logits, axis=axis)
        return _sparse_loss(labels, scores)

    return repaired


def categorical_crossentropy(original: Function) -> Function:
    """Repairs `categorical_crossentropy` of Keras's backend, likewise."""

    def repaired(target: Any, output: Any, from_logits: bool = False, axis: int = -1) -> Any:
        found = _of_positions(original, target, output, axis, from_logits=from_logits)
        if found is not None:
            return found
        scores = _scores_of(output, axis, from_logits=from_logits, name="categorical_crossentropy")
        targets = actual_of(tf.convert_to_tensor(target)) if scores is not None else None
        if scores is None or targets is None or targets.dtype != scores.slice.dtype:
            return original(target, output, from_logits=from_logits, axis=axis)
        if not targets.shape.is_compatible_with(scores.shape):
            return original(target, output, from_logits=from_logits, axis=axis)
        return _dense_loss(targets, scores)

    return repaired


def _of_positions(original: Function, target: Any, output: Any, axis: int, *, from_logits: bool) -> tf.Tensor | None:
    """The crossentropy of scores that are cut along another axis than their last one; None for any others."""
    if not isinstance(output, tf.Tensor) or tf.executing_eagerly():
        return None
    logits, is_logits = nn._get_logits(output, from_logits, "Softmax", original.__name__)
    found, target = sliced_of(logits), actual_of(tf.convert_to_tensor(target))
    rank = logits.shape.rank
    if not isinstance(found, SlicedRows) or found.axis == rank - 1 or axis not in (-1, rank - 1):
        return None
    if sliced_of(target) is not None or target.shape.rank is None or target.shape.rank <= found.axis:
        return None
    if target.shape[found.axis] != found.bounds[-1]:
        return None
    own, _ = slices_of_all(target, found.axis, found.bounds, found.group)
    loss = rows_like(found, original(own, found.slice, from_logits=is_logits))
    return standing_for(loss, loss.shape)


def _scores_of(output: Any, axis: int, *, from_logits: bool, name: str) -> SlicedRows | None:
    """Scores that are cut along their last axis, of which a loss takes the softmax; None for anything else."""
    if not isinstance(output, tf.Tensor) or tf.executing_eagerly():
        return None
    logits, is_logits = nn._get_logits(output, from_logits, "Softmax", name)
    found = sliced_of(logits) if is_logits else None
    if not isinstance(found, SlicedRows) or not found.slice.dtype.is_floating:
        return None
    last = found.slice.shape.rank - 1
    return found if found.axis == last and axis in (-1, last) else None


def _sparse_loss(labels: tf.Tensor, scores: SlicedRows) -> tf.Tensor:
    """The crossentropy of a worker's own rows with labels `[rows, ...]`."""
    start, stop = _span(scores)
    size = scores.bounds[-1]
    said = f"Received a label value which is outside the valid range of [0, {size}). Label values:"
    # On GPUs TensorFlow's own loss is NaN there.
    labels, is_valid = checked(labels, size, said), tf.logical_and(labels >= 0, labels < size)
    of_all = gathered(labels, scores.group)[0]
    place = tf.where(tf.logical_and(of_all >= start, of_all < stop), of_all - start, -tf.ones_like(of_all))
    wide = _wide(scores)

    @tf.custom_gradient
    def reduced(slices: tf.Tensor) -> tuple[tf.Tensor, Function]:
        total = tf.reduce_logsumexp(slices, -1)
        found = tf.gather(slices, tf.maximum(place, 0), batch_dims=slices.shape.rank - 1)
        chosen = tf.where(place >= 0, found, tf.zeros_like(found))

        def gradient(upstream: tf.Tensor) -> tf.Tensor:
            by_total, by_chosen = tf.unstack(upstream, axis=-1)
            hot = tf.one_hot(place, stop - start, dtype=slices.dtype)
            return _by_scores(slices, total, by_total) + hot * by_chosen[..., tf.newaxis]

        return tf.stack([total, chosen], -1), gradient

    total, chosen = tf.unstack(_of_own(reduced(wide), scores, 2), axis=-1)
    loss = _total_of(total, [-1]) - tf.reduce_sum(chosen, -1)
    loss = tf.where(is_valid, loss, tf.constant(float("nan"), loss.dtype))
    return with_rows_of(tf.cast(loss, scores.slice.dtype), scores.origin)


def _dense_loss(targets: tf.Tensor, scores: SlicedRows) -> tf.Tensor:
    """The crossentropy of a worker's own rows with targets of the shape of the full scores."""
    wide = _wide(scores)
    own, _ = slices_of_all(targets, scores.axis, scores.bounds, scores.group)
    own = tf.cast(own, wide.dtype)
    parts = [_log_sum(wide), tf.reduce_sum(own * wide, -1), tf.reduce_sum(own, -1)]
    total, chosen, weight = tf.unstack(_of_own(tf.stack(parts, -1), scores, len(parts)), axis=-1)
    loss = _total_of(total, [-1]) * tf.reduce_sum(weight, -1) - tf.reduce_sum(chosen, -1)
    return with_rows_of(tf.cast(loss, scores.slice.dtype), scores.origin)


def _wide(scores: SlicedRows) -> tf.Tensor:
    """One device takes sums of 16 bits in 32."""
    return tf.cast(scores.slice, tf.float32) if scores.slice.dtype.size == 2 else scores.slice


def _span(scores: SlicedRows) -> tuple[int, int]:
    start, stop = scores.bounds[scores.group.share : scores.group.share + 2]
    return start, stop


def _total_of(totals: tf.Tensor, axes: Sequence[int]) -> tf.Tensor:
    """The logarithm of the sum of exponentials of all slices; not a number where it is infinite.

    One device subtracts the largest score first, which is not a number where that is infinite.
    """
    total = tf.reduce_logsumexp(totals, axes)
    nan, zero = (tf.constant(value, total.dtype) for value in (float("nan"), 0.0))
    return total + tf.where(tf.math.is_inf(total), nan, zero)


@tf.custom_gradient
def _log_sum(slices: tf.Tensor) -> tuple[tf.Tensor, Function]:
    """The logarithm of the sum of exponentials of a slice; its gradient keeps nothing else of the size of that."""
    total = tf.reduce_logsumexp(slices, -1)
    return total, lambda upstream: _by_scores(slices, total, upstream)


def _by_scores(slices: tf.Tensor, total: tf.Tensor, upstream: tf.Tensor) -> tf.Tensor:
    """The gradient of the logarithm of a sum; that of a slice of nothing but minus infinity is zero."""
    is_some = tf.not_equal(total, tf.constant(-float("inf"), total.dtype))[..., tf.newaxis]
    share = tf.exp(slices - tf.where(is_some, total[..., tf.newaxis], tf.zeros([], total.dtype)))
    return share * upstream[..., tf.newaxis]


def _of_own(parts: tf.Tensor, scores: SlicedRows, count: int) -> tf.Tensor:
    """What each worker has computed of its slice for the own rows, `[rows, ..., workers, count]`.

    Args:
        parts: This worker's, of the rows of all, `[rows of all, ..., count]`.
    """
    workers = len(scores.group.workers)
    bounds = [count * worker for worker in range(workers + 1)]
    own = own_rows(parts, scores.axis, bounds, scores.counts, scores.group)
    return tf.reshape(own, tf.concat([tf.shape(own)[:-1], [workers, count]], 0))


def _softmax(compute: Compute, inputs: Sequence[Input], _: Mapping[str, Any]) -> Result:
    ((_, part),) = inputs
    if not isinstance(part, SlicedRows):
        return None
    if part.axis < part.slice.shape.rank - 1:
        return [rows_like(part, compute(part.slice))]
    return [rows_like(part, tf.exp(_log_of_softmax(part)))]


def _log_softmax(compute: Compute, inputs: Sequence[Input], _: Mapping[str, Any]) -> Result:
    ((_, part),) = inputs
    if not isinstance(part, SlicedRows):
        return None
    return [rows_like(part, compute(part.slice) if part.axis < part.slice.shape.rank - 1 else _log_of_softmax(part))]


def _log_of_softmax(part: SlicedRows) -> tf.Tensor:
    wide = _wide(part)
    total = _total_of(_of_own(_log_sum(wide)[..., tf.newaxis], part, 1), [-2, -1])
    of_all = gathered(total[..., tf.newaxis], part.group)[0]
    return tf.cast(wide - of_all, part.slice.dtype)


def _place_of_largest(compute: Compute, inputs: Sequence[Input], attributes: Mapping[str, Any]) -> Result:
    """The first place of the largest number along the axis that is cut."""
    (_, part), (axis_tensor, other) = inputs
    axis = tf.get_static_value(axis_tensor) if other is None else None
    if not isinstance(part, SlicedRows) or axis is None or not part.slice.dtype.is_floating:
        return None
    rank, kind = part.slice.shape.rank, value_of(attributes["output_type"])
    if int(axis) % rank != rank - 1:
        return None
    slices = tf.stop_gradient(part.slice)
    if part.axis != rank - 1:
        return [rows_like(part, compute(slices, axis_tensor))]
    place = tf.argmax(slices, -1, tf.int64)
    largest = tf.gather(slices, place, batch_dims=rank - 1)
    numbers = [tf.cast(each, tf.float64) for each in (largest, place + _span(part)[0])]
    values, places = tf.unstack(_of_own(tf.stack(numbers, -1), part, 2), axis=-1)
    found = tf.gather(places, tf.argmax(values, -1), batch_dims=rank - 1)
    return [FullTensor(with_rows_of(tf.cast(found, kind), part.origin))]


RULES: Mapping[str, Rule] = {"ArgMax": _place_of_largest, "LogSoftmax": _log_softmax, "Softmax": _softmax}
