"""Mean and variance over the rows of all replicas, in one collective forward and one backward.

Each replica reduces its own rows to a count, a mean, and the sums of the differences from that mean and of their
squares. Every replica then gets those of all, and merges them by the differences between the means (Chan, Golub and
LeVeque 1979, "Updating formulae and a pairwise algorithm for computing sample variances"). A mean of squares less the
square of the mean, as Keras takes it, has no correct digit left where the mean is some thousand times the spread.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import tensorflow as tf

from tfdist.keras_repairs.base.nested_gradients import is_nested, where_shares_are_equal
from tfdist.keras_repairs.base.replica_step import ReplicaStep, current_step, replica_count, replica_id
from tfdist.runtime.transport import replica_sums

_Gradients: TypeAlias = tuple[None, tf.Tensor, None, tf.Tensor]


@dataclass(frozen=True)
class GlobalMoments:
    """Moments of the global batch, the same on every replica, of the shape of a row with the reduced axes of size 1.

    Attributes:
        count: How many elements there are to each mean, in the dtype of `mean`.
        mean: Their means.
        spread: The sums of their squared differences from the mean.
    """

    count: tf.Tensor
    mean: tf.Tensor
    spread: tf.Tensor


class _OwnMoments(NamedTuple):
    """Moments of one replica's rows.

    Attributes:
        count: As in `GlobalMoments`.
        mean: The means, rounded.
        rest: The sums of the differences from `mean`: nothing but what the rounding has left.
        spread: The sums of their squares.
    """

    count: tf.Tensor
    mean: tf.Tensor
    rest: tf.Tensor
    spread: tf.Tensor


def of_global_batch(
    x: tf.Tensor, axes: Sequence[int], valid: tf.Tensor | None = None, *, as_of_constant_mean: bool = False
) -> GlobalMoments:
    """The moments of `x` along `axes` and over all replicas. Call it in the context of a replica, on all of them.

    A replica without samples adds nothing, whatever rows it has. The gradient is that of the loss of the global batch:
    each replica's loss is its summand, or, in a step of the user's own, a mean that is weighted by samples later.

    Args:
        x: A replica's floating-point rows.
        axes: What is reduced; that of the samples is among them.
        valid: Bools of the shape of `x`, which elements count; None where all do.
        as_of_constant_mean: Whether the gradient's own gradient takes the mean for a constant, as that of
            `tf.nn.moments` does.
    """
    own = _of_rows(x, axes, valid)
    counts = has_samples(x)
    zero = tf.zeros((), x.dtype)
    # Chosen, as the mean over no row is NaN and stays it in a product with zero.
    counted = _OwnMoments(*(tf.where(counts, part, zero) for part in own))
    return _merged(counted, _SumsOverReplicas(counts), as_of_constant_mean=as_of_constant_mean)


def has_samples(x: tf.Tensor) -> tf.Tensor:
    """Whether the rows `x` of this replica are samples; where it has none, a row may stand in for them."""
    step, filled = current_step(), tf.size(x) > 0
    return filled if step is None else tf.logical_and(filled, step.samples > 0)


def _of_rows(x: tf.Tensor, axes: Sequence[int], valid: tf.Tensor | None) -> _OwnMoments:
    """The moments of this replica's rows; without any, the mean is not a number."""
    if valid is None:
        mean = tf.reduce_mean(x, axes, keepdims=True)
        sizes = tf.gather(tf.shape(x, out_type=tf.int64), [axis % x.shape.rank for axis in axes])
        count = tf.cast(tf.reduce_prod(sizes), x.dtype) * tf.ones([1] * x.shape.rank, x.dtype)
        differences = x - tf.stop_gradient(mean)
    else:
        zero = tf.zeros((), x.dtype)
        count = tf.reduce_sum(tf.cast(valid, x.dtype), axes, keepdims=True)
        mean = tf.math.divide_no_nan(tf.reduce_sum(tf.where(valid, x, zero), axes, keepdims=True), count)
        differences = tf.where(valid, x - tf.stop_gradient(mean), zero)
    # No gradient flows through the mean here, nor through the rest: both would be zero, as the differences add up to
    # zero.
    rest = tf.reduce_sum(tf.stop_gradient(differences), axes, keepdims=True)
    return _OwnMoments(count, mean, rest, tf.reduce_sum(tf.square(differences), axes, keepdims=True))


def _merged(own: _OwnMoments, sums: _SumsOverReplicas, *, as_of_constant_mean: bool) -> GlobalMoments:
    """The moments of all replicas' rows.

    The gradient is written down, for it to need no more than the upstream gradients of mean and spread.
    """

    @tf.custom_gradient
    def merge(
        count: tf.Tensor, mean: tf.Tensor, rest: tf.Tensor, spread: tf.Tensor
    ) -> tuple[tuple[tf.Tensor, ...], object]:
        counts, means, rests, spreads = _of_all(_OwnMoments(count, mean, rest, spread), sums)
        total = tf.reduce_sum(counts, 0)
        near = tf.reduce_sum(means * tf.math.divide_no_nan(counts, total), 0)
        whole = near + tf.math.divide_no_nan(tf.reduce_sum(counts * (means - near) + rests, 0), total)
        apart = means - whole
        around = tf.reduce_sum(spreads + apart * (2 * rests + counts * apart), 0)

        def gradient(_: tf.Tensor, by_mean: tf.Tensor, by_spread: tf.Tensor) -> _Gradients:
            by_mean, by_spread = tf.unstack(sums.gathered_gradient(tf.stack([by_mean, by_spread])))
            center = tf.stop_gradient(whole) if as_of_constant_mean else whole
            from_center = tf.stop_gradient(mean) - center
            return None, count * (tf.math.divide_no_nan(by_mean, total) + 2 * by_spread * from_center), None, by_spread

        return (total, whole, around), gradient

    return GlobalMoments(*merge(*own))


def _of_all(own: _OwnMoments, sums: _SumsOverReplicas) -> list[tf.Tensor]:
    """The four moments of all replicas, each with the replicas as an axis before its own.

    Every replica fills in a row of zeros, and the rows are summed: that copies them bit for bit, in one collective.
    """
    packed = tf.concat([tf.reshape(part, [-1]) for part in own], 0)
    is_own = tf.range(replica_count()) == replica_id()
    rows = sums.total(tf.where(is_own[:, tf.newaxis], packed, tf.zeros((), packed.dtype)))
    split = tf.split(rows, [tf.size(part) for part in own], axis=1)
    return [tf.reshape(rows, tf.concat([[-1], tf.shape(part)], 0)) for rows, part in zip(split, own, strict=True)]


class _SumsOverReplicas:
    """Sums over the replicas whose gradients are those of the global batch's loss, also the gradients' gradients.

    Each replica's loss is differentiated by itself, and the losses L_r add up to sum(w_r L_r) when the gradients are
    reduced: w_r is 1 where the loss is the replica's summand, and its share of the samples in a step of the user's own.
    So what a replica must get from the others' upstream gradients u_r is sum(w_r u_r) / w_r.

    Args:
        counts: Whether this replica's gradients count.
    """

    def __init__(self, counts: tf.Tensor) -> None:
        self._counts = counts
        self._step: ReplicaStep | None = current_step()

    def total(self, x: tf.Tensor) -> tf.Tensor:
        """The sum of `x` over the replicas."""

        @tf.custom_gradient
        def forward(x: tf.Tensor) -> tuple[tf.Tensor, object]:
            return _sum(x), self.gathered_gradient

        return forward(x)

    def gathered_gradient(self, upstream: tf.Tensor) -> tf.Tensor:
        """What this replica's summand of a `total` gets of the upstream gradients of all replicas."""
        nested = is_nested()

        @tf.custom_gradient
        def forward(upstream: tf.Tensor) -> tuple[tf.Tensor, object]:
            weight = self._weight(upstream.dtype)
            if weight is not None and self._step is not None and nested:
                upstream, weight = where_shares_are_equal(upstream, self._step), None
            weighted = upstream if weight is None else upstream * weight
            # Chosen: the loss of no sample is NaN, and so is its gradient.
            found = _sum(tf.where(self._counts, weighted, tf.zeros((), upstream.dtype)))
            return (found if weight is None else tf.math.divide_no_nan(found, weight)), self.total

        return forward(upstream)

    def _weight(self, dtype: tf.DType) -> tf.Tensor | None:
        return None if self._step is None else self._step.weight(dtype)


def _sum(x: tf.Tensor) -> tf.Tensor:
    """The sum over the replicas, which has no gradient.

    Cut off from the graph before it, where every tf.custom_gradient looks for variables that its result comes from: it
    would look at all that the other replicas have computed so far, for each layer again.
    """
    return replica_sums.sum_over_replicas([tf.stop_gradient(x)])[0]
