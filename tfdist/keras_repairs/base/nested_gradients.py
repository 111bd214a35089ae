"""Gradients of gradients through what replicas compute together, as penalties on gradients take them.

In a step of the user's every gradient is weighted by its replica's share of the samples where it is reduced. A gradient
that the step goes on to compute with is not reduced: whether it is that of a sum or of a mean over samples, and so how
much those of the other replicas count in it, cannot be told. With equal shares it does not matter.
"""

from __future__ import annotations

import tensorflow as tf
from tensorflow.python.eager import record

from tfdist.errors import UnsupportedError
from tfdist.keras_repairs.base.replica_step import ReplicaStep, replica_count
from tfdist.text import safe_str

_INSTEAD = (
    "Compute the penalty inside of a function of its own, tfdist.gathered(penalty)(x), which takes it of the rows of "
    "all replicas; and call tape.gradient(...) of a gradient that you only apply outside of every `with "
    "tf.GradientTape()`."
)


def is_nested() -> bool:
    """Returns whether the gradient that is being taken will be differentiated itself: a tape records it."""
    return bool(record.could_possibly_record())


_UNEQUAL = (
    "A train_step of your own takes the gradient of a gradient through BatchNormalization or tfdist.gathered(...), and "
    "the samples of a batch do not divide by the replicas"
)


def is_of_unequal_shares(error: BaseException) -> bool:
    """Returns whether an exception is that of `where_shares_are_equal`."""
    return _UNEQUAL in safe_str(error)


def where_shares_are_equal(upstream: tf.Tensor, step: ReplicaStep) -> tf.Tensor:
    """`upstream`, once it is known that all replicas have as many samples; all of them find the same.

    Raises:
        InvalidArgumentError: They have not. Raised when it runs.
    """
    left = step.share.total % replica_count()
    check = tf.debugging.assert_equal(
        left,
        tf.zeros_like(left),
        f"{_UNEQUAL}, so what one replica would compute cannot be told. {_INSTEAD} Or give batches that divide "
        "(drop_remainder=True).",
    )
    with tf.control_dependencies([] if check is None else [check]):
        return tf.identity(upstream)


def of_a_loss() -> UnsupportedError:
    """The gradient of the gradient of a loss that is taken of the rows of all replicas."""
    return UnsupportedError(
        "The gradient of a loss that is taken of the samples of all replicas is differentiated again. Each replica has "
        f"such a gradient weighted by its share of the samples. {_INSTEAD}"
    )
