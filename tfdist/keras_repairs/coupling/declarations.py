"""The user's declarations of a loss, a function or a layer: gathered, a mean over the samples, or a sum over them."""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from tfdist.keras_repairs.base.replica_step import alone, current_step, is_one_of_several
from tfdist.keras_repairs.coupling.gathered_batch import gathered_for_rows
from tfdist.keras_repairs.coupling.traced_calls import is_noting, known_rows, note_rows


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
        if self.declared is not Declared.GATHERED or not is_one_of_several():
            if self.declared is Declared.GATHERED and is_noting():
                note_rows((args, kwargs))
            return function(*args, **kwargs)

        def call(values: Any) -> Any:
            args, kwargs = values
            with alone():
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
