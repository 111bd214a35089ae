"""The user's declarations of a loss, a function or a layer: gathered, a mean over the samples, or a sum over them."""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from tfdist.errors import UsageError
from tfdist.keras_repairs.base.replica_copies import on_global_batch
from tfdist.keras_repairs.base.replica_step import alone, current_step, is_one_of_several
from tfdist.keras_repairs.coupling.call_scope import marked_as_mean
from tfdist.keras_repairs.coupling.gathered_batch import gathered_for_rows
from tfdist.keras_repairs.coupling.traced_calls import is_noting, known_rows, note_rows
from tfdist.keras_repairs.coupling.trials.recorded_layers import current_recording
from tfdist.keras_repairs.coupling.trials.replica_trial import is_in_replica_trial
from tfdist.keras_repairs.coupling.trials.trial_scope import share_on_trial
from tfdist.runtime.transport import replica_sums
from tfdist.text import safe_repr


class Declared(enum.Enum):
    """The declaration of the result for a batch."""

    GATHERED = "gathered"
    AVERAGED = "averaged"
    SUMMED = "summed"


@keras.saving.register_keras_serializable(package="tfdist")
class DeclaredLoss(keras.losses.Loss):
    """A loss object and what is declared of it; on one replica the loss itself.

    Args:
        loss: Any loss.
        declared: A `Declared`, or its value.
    """

    def __init__(self, loss: keras.losses.Loss, declared: Declared | str) -> None:
        super().__init__(name=loss.name, reduction=loss.reduction, dtype=loss.dtype)
        self.loss = loss
        self.declared = Declared(declared)

    def __call__(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> Any:
        if not is_one_of_several():
            return self.loss(y_true, y_pred, sample_weight)
        return super().__call__(y_true, y_pred, sample_weight)

    def call(self, y_true: Any, y_pred: Any) -> Any:
        return self.loss.call(y_true, y_pred)

    def get_config(self) -> dict[str, Any]:
        return {"loss": keras.saving.serialize_keras_object(self.loss), "declared": self.declared.value}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> DeclaredLoss:
        return cls(**{**config, "loss": keras.saving.deserialize_keras_object(config["loss"])})


@keras.saving.register_keras_serializable(package="tfdist")
class DeclaredFunction:
    """A function of tensors and what is declared of it.

    One that is gathered takes the rows of all replicas wherever it is called, and each replica gets its own rows of the
    outputs that have rows; as a loss or a metric it is handled there.

    Args:
        function: Any function of tensors.
        declared: A `Declared`, or its value.
    """

    def __init__(self, function: Callable[..., Any], declared: Declared | str) -> None:
        self.function = function
        self.declared = Declared(declared)
        self.name = getattr(function, "__name__", type(function).__name__)
        self.__name__ = self.name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        # In a function that is decorated with tf.function, AutoGraph converts what that calls.
        context = tf.__internal__.autograph.control_status_ctx()
        function = tf.__internal__.autograph.tf_convert(self.function, context)
        recording = current_recording() if self.declared is Declared.GATHERED else None
        if recording is not None:
            return recording.call(self.function, function, args, kwargs)
        if self.declared is not Declared.GATHERED or not is_one_of_several():
            if self.declared is Declared.GATHERED and is_noting():
                note_rows((args, kwargs))
            return function(*args, **kwargs)

        def call(values: Any) -> Any:
            args, kwargs = values
            with alone(), on_global_batch():
                return function(*args, **kwargs)

        step = current_step()
        known = None if step is None else known_rows((args, kwargs), step)
        return gathered_for_rows((args, kwargs), known).own_rows(call)

    def get_config(self) -> dict[str, Any]:
        return {"function": keras.saving.serialize_keras_object(self.function), "declared": self.declared.value}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> DeclaredFunction:
        return cls(**{**config, "function": keras.saving.deserialize_keras_object(config["function"])})


def declared_of(loss: Any) -> Declared | None:
    """Returns what is declared of a loss object, or of the function that it calls."""
    for part in (loss, getattr(loss, "fn", None)):
        if isinstance(part, DeclaredLoss | DeclaredFunction):
            return part.declared
    return None


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
