"""Exchanges between the workers that share weights: of own rows for the rows of all of them, and back.

Each is the gradient of another one. In Keras's step the loss of a replica is its summand of the global loss, so that
gradients that come from several workers add up. In a step of the user's it is a mean over the replica's own samples:
what a worker sends back is weighted by its share of the samples, and what it gets for its own rows is not, as they are
weighted where the gradients of full weights are summed.

A worker without a sample has a row that stands in for one. The others of its group do not compute with that: it is not
sent, and zeros come back for it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import tensorflow as tf

from tfdist.keras_repairs.base.replica_step import current_step
from tfdist.keras_repairs.gradient_sums import differentiated_once
from tfdist.runtime.transport.row_exchange import exchange_rows, gather_rows
from tfdist.sharding.mesh import ShardGroup

Bounds = Sequence[int]
_Gradient = Callable[..., tf.Tensor]

_LARGE = 1 << 14
"""Elements from which on gradients of what is the same on all workers are not gathered."""

OTHER_SIZES = (
    "A layer computes with slices of its weights, for the rows of all workers that share them, and these are not "
    "equally long on all workers, as where a model cuts its batch off at the longest sample, of which each worker has "
    "some, or where its layers get another dimension than the batch first. Pad or cut samples in the data, keep the "
    "batch first, or give the layers behind it no layout (`tfdist train` without --tensor, a LayoutMap without their "
    "weights). Received these sizes on the workers:"
)


def gathered(own: tf.Tensor, group: ShardGroup) -> tuple[tf.Tensor, tf.Tensor]:
    """The rows of all workers of the group, and how many each of them has.

    Args:
        own: This worker's, `[rows, ...]`.
        group: The workers that share weights.
    """
    noted: list[tf.Tensor] = []

    @tf.custom_gradient
    def exchange(own: tf.Tensor) -> tuple[tf.Tensor, _Gradient]:
        rows, counts = gather_rows(_alike(own, group), group.workers)
        noted.append(counts)
        return rows, lambda upstream: differentiated_once(_unweighted(_summed(upstream, counts, group)))

    return exchange(_sent(own, group)), _with_own(noted[0], own, group)


def summed(partial: tf.Tensor, counts: tf.Tensor, group: ShardGroup) -> tf.Tensor:
    """This worker's rows of the sum of what the workers of the group have of the rows of all.

    Args:
        partial: What this worker has, `[rows of all, ...]`.
        counts: How many rows are of each worker.
    """
    all_counts, counts = counts, sent_counts(counts, group)

    @tf.custom_gradient
    def exchange(partial: tf.Tensor) -> tuple[tf.Tensor, _Gradient]:
        def gradient(upstream: tf.Tensor) -> tf.Tensor:
            return differentiated_once(gather_rows(_weighted(upstream), group.workers)[0])

        return _summed(partial, counts, group), gradient

    return _with_stand_in(exchange(partial), all_counts, group)


def slices_of_all(own: tf.Tensor, axis: int, bounds: Bounds, group: ShardGroup) -> tuple[tf.Tensor, tf.Tensor]:
    """This worker's slice of the rows of all workers, and how many rows each of them has.

    Args:
        own: This worker's rows, with all of what is cut.
        axis: Along which it is cut; not 0.
        bounds: Where the slices begin, and where the last one ends.
    """
    noted: list[tf.Tensor] = []

    @tf.custom_gradient
    def exchange(own: tf.Tensor) -> tuple[tf.Tensor, _Gradient]:
        rows, counts = _dealt(_alike(own, group), axis, bounds, group)
        noted.append(counts)
        return rows, lambda upstream: differentiated_once(_unweighted(_joined(upstream, axis, bounds, counts, group)))

    return exchange(_sent(own, group)), _with_own(noted[0], own, group)


def own_rows(slices: tf.Tensor, axis: int, bounds: Bounds, counts: tf.Tensor, group: ShardGroup) -> tf.Tensor:
    """This worker's rows with all of what is cut: the inverse of `slices_of_all`."""
    all_counts, counts = counts, sent_counts(counts, group)

    @tf.custom_gradient
    def exchange(slices: tf.Tensor) -> tuple[tf.Tensor, _Gradient]:
        rows = _joined(slices, axis, bounds, counts, group)
        return rows, lambda upstream: differentiated_once(_dealt(_weighted(upstream), axis, bounds, group)[0])

    return _with_stand_in(exchange(slices), all_counts, group)


def gradient_of_slices(upstream: tf.Tensor, axis: int, bounds: Bounds, group: ShardGroup) -> tf.Tensor:
    """The gradient by this worker's slice of all rows, of those that each worker has by its own rows."""
    return differentiated_once(_dealt(_weighted(_sent(upstream, group)), axis, bounds, group)[0])


def sent_counts(counts: tf.Tensor, group: ShardGroup) -> tf.Tensor:
    """How many rows of each worker there are in what each has of the rows of all; see the module.

    Args:
        counts: How many rows each worker has; of the others, those that it sends.
    """
    is_left_out = _is_left_out(group)
    if is_left_out is None:
        return counts
    return tf.where(is_left_out & _is_own(group), tf.zeros_like(counts), counts)


def _sent(own: tf.Tensor, group: ShardGroup) -> tf.Tensor:
    """The rows that this worker sends."""
    is_left_out = _is_left_out(group)
    return own if is_left_out is None else own[: tf.where(is_left_out, 0, tf.shape(own)[0])]


def _with_own(counts: tf.Tensor, own: tf.Tensor, group: ShardGroup) -> tf.Tensor:
    """The numbers of rows that the workers send, with that of all of this worker's."""
    if _is_left_out(group) is None:
        return counts
    return tf.where(_is_own(group), tf.shape(own, tf.int64)[0], counts)


def _with_stand_in(rows: tf.Tensor, counts: tf.Tensor, group: ShardGroup) -> tf.Tensor:
    """This worker's rows, with zeros for what stands in for a sample where that was not sent."""
    if _is_left_out(group) is None:
        return rows
    missing = counts[group.share] - tf.shape(rows, tf.int64)[0]
    return tf.ensure_shape(tf.pad(rows, [[0, missing], *[[0, 0]] * (rows.shape.rank - 1)]), [None, *rows.shape[1:]])


def _is_own(group: ShardGroup) -> tf.Tensor:
    return tf.range(len(group.workers)) == group.share


def _is_left_out(group: ShardGroup) -> tf.Tensor | None:
    """Whether this worker has no sample, and another of the group has one; None where all are known to have one."""
    step = current_step()
    if step is None or step.share.counting is None:
        return None
    known, key = step.noted.left_out, (tf.compat.v1.get_default_graph(), group)
    if key not in known:
        has_sample = step.share.samples > 0
        flags, _ = gather_rows(tf.cast(has_sample, tf.int32)[tf.newaxis], group.workers)
        known[key] = tf.logical_and(tf.logical_not(has_sample), tf.reduce_any(flags > 0))
    return known[key]


def resliced(
    slices: tf.Tensor, axis: int, bounds: Bounds, to_axis: int, to_bounds: Bounds, group: ShardGroup
) -> tf.Tensor:
    """Slices of the rows of all workers along another axis.

    Args:
        slices: This worker's, cut along `axis`.
        axis: Along which they are cut; not 0.
        bounds: Where the slices begin, and where the last one ends.
        to_axis: Along which they are to be cut, another one.
        to_bounds: The same along that.
    """

    @tf.custom_gradient
    def exchange(slices: tf.Tensor) -> tuple[tf.Tensor, _Gradient]:
        def gradient(upstream: tf.Tensor) -> tf.Tensor:
            return differentiated_once(_turned(upstream, to_axis, to_bounds, axis, bounds, group))

        return _turned(slices, axis, bounds, to_axis, to_bounds, group), gradient

    return exchange(slices)


def whole_rows_of_all(slices: tf.Tensor, axis: int, bounds: Bounds, group: ShardGroup) -> tf.Tensor:
    """The rows of all workers with all of what is cut, on each of them, for what each computes with slices.

    Args:
        slices: This worker's, cut along `axis`.
        axis: Along which they are cut; not 0.
        bounds: Where the slices begin, and where the last one ends.
    """

    @tf.custom_gradient
    def exchange(slices: tf.Tensor) -> tuple[tf.Tensor, _Gradient]:
        def gradient(upstream: tf.Tensor) -> tf.Tensor:
            widths = _widths(bounds)
            flat = tf.concat([tf.reshape(part, [-1]) for part in tf.split(upstream, widths, axis)], 0)
            received, _ = exchange_rows(flat, _sizes_of_parts(upstream, axis, widths), group.workers)
            parts = tf.reshape(received, tf.concat([[len(widths)], tf.shape(slices)], 0))
            return differentiated_once(tf.ensure_shape(_wide_sum(parts), slices.shape))

        return _turned(slices, axis, bounds, None, (), group), gradient

    return exchange(slices)


def _turned(
    slices: tf.Tensor, axis: int, bounds: Bounds, to_axis: int | None, to_bounds: Bounds, group: ShardGroup
) -> tf.Tensor:
    """Slices along another axis, or whole rows where there is none."""
    widths = _widths(bounds)
    if to_axis is None:
        to_widths, parts = [0] * len(widths), [slices] * len(widths)
        sizes = tf.fill([len(widths)], tf.size(slices, tf.int64))
    else:
        to_widths = _widths(to_bounds)
        parts = tf.split(slices, to_widths, to_axis)
        sizes = _sizes_of_parts(slices, to_axis, to_widths)
    flat, received = exchange_rows(tf.concat([tf.reshape(part, [-1]) for part in parts], 0), sizes, group.workers)
    shape, known = tf.unstack(tf.shape(slices, tf.int64), num=slices.shape.rank), slices.shape.as_list()
    if to_axis is not None:
        known[to_axis] = to_widths[group.share]
        shape[to_axis] = tf.constant(known[to_axis], tf.int64)
    found = []
    for part, width in zip(tf.split(flat, received, num=len(widths)), widths, strict=True):
        shape[axis] = tf.constant(width, tf.int64)
        found.append(tf.reshape(part, tf.stack(shape)))
    known[axis] = bounds[-1]
    return tf.ensure_shape(tf.concat(found, axis), known)


def _sizes_of_parts(tensor: tf.Tensor, axis: int, widths: Sequence[int]) -> tf.Tensor:
    """How many elements the parts of a tensor have that are so wide along an axis."""
    others = [size for place, size in enumerate(tf.unstack(tf.shape(tensor, tf.int64))) if place != axis]
    return tf.reduce_prod(tf.stack(others)) * tf.constant(list(widths), tf.int64)


def _wide_sum(parts: tf.Tensor) -> tf.Tensor:
    """The sum over the first axis; one device rounds a product to 16 bits once."""
    wide = tf.float32 if parts.dtype.size == 2 and parts.dtype.is_floating else parts.dtype
    return tf.cast(tf.reduce_sum(tf.cast(parts, wide), 0), parts.dtype)


def shared(tensor: tf.Tensor, group: ShardGroup) -> tf.Tensor:
    """A tensor that is the same on all workers, for what each of them computes with slices of the rows of all.

    The gradient that each has, of its slices, is summed over the group, and divided among the workers by what theirs
    count for where the gradients of all are summed. A large one stays where it is, to be summed there: of a worker
    whose gradients count for nothing, another one takes it.
    """
    if (tensor.shape.num_elements() or 0) >= _LARGE:
        return _shared_by_parts(tensor, group)

    @tf.custom_gradient
    def forward(tensor: tf.Tensor) -> tuple[tf.Tensor, _Gradient]:
        def gradient(upstream: tf.Tensor) -> tf.Tensor:
            wide = tf.float32 if upstream.dtype.size == 2 else upstream.dtype
            flat = tf.reshape(tf.cast(upstream, wide), [1, -1])
            parts, _ = gather_rows(tf.concat([flat, tf.reshape(_worth(wide), [1, 1])], 1), group.workers)
            *sums, worth = tf.split(tf.reduce_sum(parts, 0), [-1, 1])
            by_tensor = tf.math.divide_no_nan(tf.reshape(sums[0], tf.shape(upstream)), tf.reshape(worth, []))
            return differentiated_once(tf.ensure_shape(tf.cast(by_tensor, upstream.dtype), tensor.shape))

        return tf.identity(tensor), gradient

    return forward(tensor)


def _shared_by_parts(tensor: tf.Tensor, group: ShardGroup) -> tf.Tensor:
    @tf.custom_gradient
    def forward(tensor: tf.Tensor) -> tuple[tf.Tensor, _Gradient]:
        def gradient(upstream: tf.Tensor) -> tf.Tensor:
            wide = tf.float32 if upstream.dtype.size == 2 else upstream.dtype
            flat = tf.reshape(tf.cast(upstream, wide), [-1])
            worths, _ = gather_rows(tf.reshape(_worth(wide), [1]), group.workers)
            counts = tf.not_equal(worths, 0)
            is_mine = counts[group.share]
            given = flat[: tf.where(is_mine, 0, tf.size(flat))]
            taker = tf.one_hot(tf.argmax(counts), len(group.workers), dtype=tf.int64)
            taken, _ = exchange_rows(given, taker * tf.size(given, tf.int64), group.workers)
            total = flat + tf.reduce_sum(tf.reshape(taken, [-1, tf.size(flat)]), 0)
            by_tensor = tf.reshape(tf.math.divide_no_nan(total, worths[group.share]), tf.shape(upstream))
            return differentiated_once(tf.ensure_shape(tf.cast(by_tensor, upstream.dtype), tensor.shape))

        return tf.identity(tensor), gradient

    return forward(tensor)


def sum_of_weights(partial: tf.Tensor, group: ShardGroup) -> tf.Tensor:
    """The sum of what each worker of the group has computed of its slice of a weight, on all of them."""

    @tf.custom_gradient
    def exchange(partial: tf.Tensor) -> tuple[tf.Tensor, _Gradient]:
        def total(values: tf.Tensor) -> tf.Tensor:
            parts, _ = gather_rows(values[tf.newaxis], group.workers)
            return tf.ensure_shape(tf.reduce_sum(parts, 0), values.shape)

        return total(partial), lambda upstream: differentiated_once(total(_weighted(upstream)))

    return exchange(partial)


def _worth(dtype: tf.DType) -> tf.Tensor:
    """By what the gradients of this worker are weighted where those of all are summed."""
    step = current_step()
    assert step is not None, "slices are computed with in a step"
    weight = step.weight(dtype)
    return step.share.of_samples(tf.ones((), dtype) if weight is None else weight)


def _alike(own: tf.Tensor, group: ShardGroup) -> tf.Tensor:
    """This worker's rows, where those of all workers have the same other sizes; what is known needs no check."""
    if own.shape[1:].is_fully_defined():
        return own
    sizes, _ = gather_rows(tf.shape(own, tf.int64)[tf.newaxis, 1:], group.workers)
    check = tf.debugging.Assert(tf.reduce_all(sizes == sizes[0]), [OTHER_SIZES, sizes], summarize=-1)
    with tf.control_dependencies([] if check is None else [check]):
        return tf.identity(own)


def _summed(partial: tf.Tensor, counts: tf.Tensor, group: ShardGroup) -> tf.Tensor:
    shape = tf.shape(partial, tf.int64)
    flat, sizes = exchange_rows(tf.reshape(partial, [-1]), counts * tf.reduce_prod(shape[1:]), group.workers)
    own = counts[group.share]
    parts = tf.reshape(flat, tf.concat([tf.shape(sizes, tf.int64), own[tf.newaxis], shape[1:]], 0))
    return tf.ensure_shape(_wide_sum(parts), [None, *partial.shape[1:]])


def _dealt(own: tf.Tensor, axis: int, bounds: Bounds, group: ShardGroup) -> tuple[tf.Tensor, tf.Tensor]:
    widths = _widths(bounds)
    shape = tf.shape(own, tf.int64)
    others = tf.reduce_prod(shape) // shape[axis]
    parts = [tf.reshape(part, [-1]) for part in tf.split(own, widths, axis)]
    flat, sizes = exchange_rows(tf.concat(parts, 0), others * tf.constant(widths, tf.int64), group.workers)
    width = widths[group.share]
    row = tf.maximum(tf.reduce_prod(shape[1:]) // shape[axis] * width, 1)
    counts = sizes // row
    sizes_of_slice = [tf.reduce_sum(counts), *(shape[place] for place in range(1, own.shape.rank))]
    sizes_of_slice[axis] = tf.constant(width, tf.int64)
    trailing = own.shape.as_list()[1:]
    trailing[axis - 1] = width
    return tf.ensure_shape(tf.reshape(flat, tf.stack(sizes_of_slice)), [None, *trailing]), counts


def _joined(slices: tf.Tensor, axis: int, bounds: Bounds, counts: tf.Tensor, group: ShardGroup) -> tf.Tensor:
    widths, shape = _widths(bounds), tf.shape(slices, tf.int64)
    flat, sizes = exchange_rows(tf.reshape(slices, [-1]), counts * tf.reduce_prod(shape[1:]), group.workers)
    own = [counts[group.share], *(shape[place] for place in range(1, slices.shape.rank))]
    parts = []
    for part, width in zip(tf.split(flat, sizes, num=len(widths)), widths, strict=True):
        own[axis] = tf.constant(width, tf.int64)
        parts.append(tf.reshape(part, tf.stack(own)))
    trailing = slices.shape.as_list()[1:]
    trailing[axis - 1] = bounds[-1]
    return tf.ensure_shape(tf.concat(parts, axis), [None, *trailing])


def _widths(bounds: Bounds) -> list[int]:
    return [stop - start for start, stop in zip(bounds, bounds[1:], strict=False)]


def _weighted(upstream: tf.Tensor) -> tf.Tensor:
    """A gradient by this worker's rows as it adds to that of the global loss; zeros where the worker has no sample."""
    step = current_step()
    if step is None:
        return upstream
    weight = step.weight(upstream.dtype)
    return step.share.of_samples(upstream if weight is None else upstream * weight)


def _unweighted(gradient: tf.Tensor) -> tf.Tensor:
    """A gradient of the global loss by this worker's rows, as it is before it is weighted."""
    step = current_step()
    weight = None if step is None else step.weight(gradient.dtype)
    return gradient if weight is None else tf.math.divide_no_nan(gradient, weight)
