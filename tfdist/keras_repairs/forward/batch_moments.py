"""Mean and variance over the rows of all replicas, in one collective forward and one backward.

Each replica reduces its own rows to a count, a mean, and the sums of the differences from that mean and of their
squares. Every replica then gets those of all, and merges them by the differences between the means (Chan, Golub and
LeVeque 1979, "Updating formulae and a pairwise algorithm for computing sample variances"). A mean of squares less the
square of the mean, as Keras takes it, has no correct digit left where the mean is some thousand times the spread.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import tensorflow as tf

from tfdist.keras_repairs.base.nested_gradients import is_nested, where_shares_are_equal
from tfdist.keras_repairs.base.replica_step import ReplicaStep, current_step, replica_count, replica_id
from tfdist.runtime.transport import replica_sums


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


class OwnMoments(NamedTuple):
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
    counts = has_samples(x)
    sums = SumsOverReplicas(counts)
    zero = tf.zeros((), x.dtype)

    # The gradient is written down: TensorFlow would derive many more operations, which all have to be compiled.
    @tf.custom_gradient
    def moments(x: tf.Tensor) -> tuple[tuple[tf.Tensor, ...], object]:
        own = moments_of_rows(x, axes, valid)
        # Chosen, as the mean over no row is NaN and stays it in a product with zero.
        total, mean, spread = merged(tf.where(counts, tf.stack(own), zero), sums)

        def gradient(_: tf.Tensor, by_mean: tf.Tensor, by_spread: tf.Tensor) -> tf.Tensor:
            upstream = sums.gathered_gradient(tf.stack([by_mean, by_spread]))
            by_mean, by_spread = tf.unstack(tf.where(counts, upstream, zero))
            center = tf.stop_gradient(mean) if as_of_constant_mean else mean
            found = tf.math.divide_no_nan(by_mean, total) + 2 * by_spread * (x - center)
            return found if valid is None else tf.where(valid, found, zero)

        return (total, mean, spread), gradient

    return GlobalMoments(*moments(x))


def has_samples(x: tf.Tensor) -> tf.Tensor:
    """Returns whether the rows `x` of this replica are samples; where it has none, a row may stand in for them."""
    step, filled = current_step(), tf.size(x) > 0
    return filled if step is None else tf.logical_and(filled, step.share.samples > 0)


def moments_of_rows(x: tf.Tensor, axes: Sequence[int], valid: tf.Tensor | None) -> OwnMoments:
    """The moments of this replica's rows; without any, the mean is not a number."""
    if valid is None:
        mean = tf.reduce_mean(x, axes, keepdims=True)
        count = tf.broadcast_to(tf.cast(tf.size(x, tf.int64) // tf.size(mean, tf.int64), x.dtype), tf.shape(mean))
        differences = x - mean
    else:
        zero = tf.zeros((), x.dtype)
        count = tf.reduce_sum(tf.cast(valid, x.dtype), axes, keepdims=True)
        mean = tf.math.divide_no_nan(tf.reduce_sum(tf.where(valid, x, zero), axes, keepdims=True), count)
        differences = tf.where(valid, x - mean, zero)
    # Without a gradient, which would be zero, as the differences add up to zero.
    rest = tf.reduce_sum(tf.stop_gradient(differences), axes, keepdims=True)
    return OwnMoments(count, mean, rest, tf.reduce_sum(tf.square(differences), axes, keepdims=True))


def merged(own: tf.Tensor, sums: SumsOverReplicas) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Count, mean and spread of all replicas' rows, from the `OwnMoments` of this one as one tensor."""
    counts, means, rests, spreads = _of_all(own, sums)
    total = tf.reduce_sum(counts, 0)
    near = tf.reduce_sum(means * tf.math.divide_no_nan(counts, total), 0)
    whole = near + tf.math.divide_no_nan(tf.reduce_sum(counts * (means - near) + rests, 0), total)
    apart = means - whole
    return total, whole, tf.reduce_sum(spreads + apart * (2 * rests + counts * apart), 0)


def _of_all(own: tf.Tensor, sums: SumsOverReplicas) -> list[tf.Tensor]:
    """The four moments of all replicas, each with the replicas as an axis before its own.

    Every replica fills in a row of zeros, and the rows are summed: that copies them bit for bit, in one collective.
    """
    is_own = tf.reshape(tf.range(replica_count()) == replica_id(), [-1] + [1] * own.shape.rank)
    return tf.unstack(sums.total(tf.where(is_own, own, tf.zeros((), own.dtype))), axis=1)


class SumsOverReplicas:
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
        """Returns what this replica's summand of a `total` gets of the upstream gradients of all replicas."""
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

    def gradient_of_all(self, upstream: tf.Tensor) -> tf.Tensor:
        """The gradient of the global batch's loss by what is the same on all replicas, of each one's own."""
        weight = self._weight(upstream.dtype)
        weighted = upstream if weight is None else upstream * weight
        return _sum(tf.where(self._counts, weighted, tf.zeros((), upstream.dtype)))

    def _weight(self, dtype: tf.DType) -> tf.Tensor | None:
        return None if self._step is None else self._step.weight(dtype)


def _sum(x: tf.Tensor) -> tf.Tensor:
    """The sum over the replicas, which has no gradient.

    Cut off from the graph before it, where every tf.custom_gradient looks for variables that its result comes from: it
    would look at all that the other replicas have computed so far, for each layer again.
    """
    return replica_sums.sum_over_replicas([tf.stop_gradient(x)])[0]
