"""What the repairs ask of the replica that runs them: is this a repaired step, and sums over all replicas."""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Iterator

import tensorflow as tf

from tfdist.runtime import sums

_step: contextvars.ContextVar[ReplicaStep | None] = contextvars.ContextVar("tfdist_replica_step", default=None)


class ReplicaStep:
    """One replica's share of one global batch, while its training or test step is traced.

    Attributes:
        samples: Scalar int64 tensor, how many samples of the global batch are this replica's; may be 0.
        static_samples: The same where it is known while the step is traced, else None.
        added_losses: What layers added with `add_loss` in this step, by the layer's id.
    """

    def __init__(self, samples: tf.Tensor, static_samples: int | None) -> None:
        self.samples = samples
        self.static_samples = static_samples
        self.added_losses: dict[int, list[tf.Tensor]] = {}


def current_step() -> ReplicaStep | None:
    """The step being traced on this replica, or None outside of `fit`, `evaluate` and their kin, or on one replica.

    Loops that users write by hand keep Keras's own scaling, which TensorFlow's guides are written for.
    """
    return _step.get()


@contextlib.contextmanager
def replica_step(samples: tf.Tensor, static_samples: int | None = None) -> Iterator[None]:
    """Marks the code inside as one replica's share of a repaired step."""
    token = _step.set(ReplicaStep(samples, static_samples))
    try:
        yield
    finally:
        _step.reset(token)


def replica_count() -> int:
    """How many replicas the current strategy keeps in sync."""
    return tf.distribute.get_strategy().num_replicas_in_sync


def is_one_of_several() -> bool:
    """Whether the code that runs is one replica's, of several."""
    return tf.distribute.in_cross_replica_context() is False and replica_count() > 1


@tf.custom_gradient
def sum_over_replicas(x: tf.Tensor) -> tuple[tf.Tensor, object]:
    """The sum of `x` over all replicas, with the gradient passed through unchanged.

    Every replica computes the same loss from the sum, and the gradients of all replicas are summed afterwards; so the
    derivative that one replica owes is that of the loss by its own summand, which is 1. (TensorFlow's `all_reduce`
    would sum the incoming gradients and so count every replica R times.)
    """
    (total,) = sums.sum_over_replicas([x])
    return total, lambda upstream: upstream


def counted_once(x: tf.Tensor) -> tf.Tensor:
    """`x`, which is the same on every replica, such that the sum of all replicas' gradients is its gradient."""
    share = x / tf.cast(replica_count(), x.dtype)
    return share + tf.stop_gradient(x - share)
