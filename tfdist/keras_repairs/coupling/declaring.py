"""`tfdist.averaged` and `tfdist.summed`: the user says what tfdist would have to find out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from tfdist.errors import UsageError
from tfdist.keras_repairs.base.replica_step import current_step
from tfdist.keras_repairs.coupling.call_scope import marked_as_mean
from tfdist.keras_repairs.coupling.declarations import Declared, DeclaredFunction, DeclaredLoss
from tfdist.keras_repairs.coupling.trials.replica_trial import is_in_replica_trial
from tfdist.keras_repairs.coupling.trials.trial_scope import share_on_trial
from tfdist.runtime.transport import replica_sums
from tfdist.text import safe_repr


def averaged(what: Any) -> Any:
    """Declares that a value is a mean over the samples of a batch, where tfdist would find it out or take it for one.

    It is not tried out, nor gathered. On one replica it changes nothing.

    Args:
        what: A loss or a loss function, for `compile`; or a scalar in a layer's `add_loss` or a step of your own, the
            mean over this replica's samples.

    Returns:
        A loss, a function or a scalar of the same kind.

    Raises:
        UsageError: `what` is a tensor that is no scalar, or none of these.
    """
    if not _is_value(what):
        return declared(what, Declared.AVERAGED, _LOSS)
    _note_declaration()
    value = _scalar(what, "averaged")
    if is_in_replica_trial() and value.dtype.is_floating:
        # Whatever value it has, the user answers for it: the trial is shown zero on one replica and on two. By `where`,
        # its gradients are zeros; a constant would have none.
        return tf.where(False, value, tf.zeros_like(value))
    return marked_as_mean(tf.identity(value))


def summed(what: Any) -> Any:
    """Declares that a value is a sum over the samples of a batch.

    For what a layer gives to `add_loss`, and for losses in your own `train_step`, `test_step` or `compute_loss`:
    `self.add_loss(tfdist.summed(keras.ops.sum(x)))`; or for a loss of `compile`, which is then not tried out. On one
    replica it changes nothing.

    Args:
        what: A scalar, the sum over this replica's samples; or a loss or a loss function, for `compile`.

    Returns:
        A scalar of the same dtype whose mean over the replicas, weighted by their samples, is the sum over all, a whole
        number the sum itself; or a loss or a function.

    Raises:
        UsageError: `what` is a tensor that is no scalar, or none of these.
    """
    if not _is_value(what):
        return declared(what, Declared.SUMMED, _LOSS)
    _note_declaration()
    return summed_over_replicas(_scalar(what, "summed"))


def summed_over_replicas(value: tf.Tensor) -> tf.Tensor:
    """`summed` of a scalar of which it is known, rather than declared, that it is a sum."""
    step = current_step()
    if step is None:
        return value / tf.cast(share_on_trial(), value.dtype) if share_on_trial() < 1 else value
    if not value.dtype.is_floating:
        # No gradient flows through it, and no mean of whole numbers would be exact.
        (total,) = replica_sums.sum_over_replicas([step.share.of_samples(value)])
        step.noted.shared.append(total)
        return total
    scale = tf.math.divide_no_nan(tf.cast(step.share.total, value.dtype), tf.cast(step.share.samples, value.dtype))
    return marked_as_mean(step.share.of_samples(value) * scale)


_LOSS = "a scalar, a keras.losses.Loss or a loss function (y_true, y_pred)"


def _note_declaration() -> None:
    step = current_step()
    if step is not None:
        step.noted.declares_scalars = True


def _is_value(what: Any) -> bool:
    return keras.ops.is_tensor(what) or isinstance(what, int | float | keras.Variable | tf.Variable)


def _scalar(what: Any, name: str) -> tf.Tensor:
    value = tf.convert_to_tensor(what)
    if value.shape.rank != 0:
        raise UsageError(
            f"tfdist.{name} takes a scalar over the samples, or a loss. Received: a tensor of shape "
            f"{tuple(value.shape)}. Reduce it first."
        )
    return value


def declared(what: Any, declared: Declared, expected: str) -> Callable[..., Any]:
    """A loss or a function of which the user says what it is.

    Args:
        what: A Keras loss, or a function of tensors.
        declared: What it is said to be.
        expected: What may be given, in words.

    Raises:
        UsageError: `what` is something else.
    """
    if isinstance(what, keras.losses.Loss):
        return DeclaredLoss(what, declared)
    if isinstance(what, type | keras.layers.Layer | keras.metrics.Metric) or not callable(what):
        raise UsageError(
            f"tfdist.{declared.value}(...) takes {expected}. Received: {safe_repr(what)}. Give an instance, such as "
            "keras.metrics.AUC() for 'auc' and keras.losses.Dice() for 'dice'."
        )
    return DeclaredFunction(what, declared)
