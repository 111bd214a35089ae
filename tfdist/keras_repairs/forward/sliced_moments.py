"""Mean and variance over the rows of all replicas, where workers have slices of the features for the rows of several.

The workers of a group have the rows of all of them, each for its features. Each gives the moments of these, with a
count of zero for the others, and every one gets those of all.
"""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

from tfdist.keras_repairs.base.replica_step import current_step
from tfdist.keras_repairs.base.size_origins import sized_as
from tfdist.keras_repairs.forward.batch_moments import (
    GlobalMoments,
    SumsOverReplicas,
    has_samples,
    merged,
    moments_of_rows,
)
from tfdist.keras_repairs.gradient_sums import differentiated_once
from tfdist.keras_repairs.tensor_parallel.row_exchanges import sent_counts
from tfdist.keras_repairs.tensor_parallel.sliced_tensors import SlicedRows, note_of_global_batch, sliced_of
from tfdist.runtime.transport.row_exchange import gather_rows


def slice_of_features(x: tf.Tensor, axes: Sequence[int]) -> SlicedRows | None:
    """What this worker has of `x` where that is cut along an axis that is not reduced; None otherwise."""
    found = sliced_of(x)
    return found if isinstance(found, SlicedRows) and found.axis not in _places(found, axes) else None


def of_slices(part: SlicedRows, axes: Sequence[int], *, as_of_constant_mean: bool = False) -> GlobalMoments:
    """The moments of the global batch of rows that are cut along their features; see `batch_moments.of_global_batch`.

    The results are those of all features, the same on every replica.
    """
    sums = SumsOverReplicas(has_samples(part.origin))
    start, stop = part.bounds[part.group.share : part.group.share + 2]
    around = [[0, 0] for _ in part.slice.shape]
    around[part.axis] = [start, part.bounds[-1] - stop]
    features = (*[slice(None)] * part.axis, slice(start, stop))
    valid, places = _of_samples(part), _places(part, axes)

    @tf.custom_gradient
    def moments(x: tf.Tensor) -> tuple[tuple[tf.Tensor, ...], object]:
        own = tf.stack(moments_of_rows(x, places, valid))
        total, mean, spread = merged(tf.pad(own, [[0, 0], *around]), sums)

        def gradient(_: tf.Tensor, by_mean: tf.Tensor, by_spread: tf.Tensor) -> tf.Tensor:
            upstream = tf.unstack(sums.gradient_of_all(tf.stack([by_mean, by_spread])))
            by_mean, by_spread = (each[features] for each in upstream)
            center = tf.stop_gradient(mean[features]) if as_of_constant_mean else mean[features]
            found = tf.math.divide_no_nan(by_mean, total[features]) + 2 * by_spread * (x - center)
            return differentiated_once(tf.where(valid, found, tf.zeros((), found.dtype)))

        return (total, mean, spread), gradient

    return GlobalMoments(*(sized_as(note_of_global_batch(each), part.origin) for each in moments(part.slice)))


def _places(part: SlicedRows, axes: Sequence[int]) -> list[int]:
    return [axis % part.slice.shape.rank for axis in axes]


def _of_samples(part: SlicedRows) -> tf.Tensor:
    """Which elements of the slice are of samples: a worker without any gives a row all the same."""
    step = current_step()
    assert step is not None, "slices are computed with in a step"
    flags, _ = gather_rows(tf.cast(step.share.samples > 0, tf.int32)[tf.newaxis], part.group.workers)
    of_rows = tf.repeat(flags > 0, sent_counts(part.counts, part.group))
    return tf.broadcast_to(tf.reshape(of_rows, [-1, *[1] * (part.slice.shape.rank - 1)]), tf.shape(part.slice))
