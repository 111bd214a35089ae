"""Tells the user's own code in a model's steps from Keras's."""

from __future__ import annotations

from typing import Any

from tfdist.keras_repairs.distillation.distilled_loss import is_distilled

_KERAS = "keras.src."
_DISTILLATION = "keras.src.distillation."


def is_users_step(model: Any, step: str) -> bool:
    """Returns whether `step` ("train_step" or "test_step") of `model`, or the loss in it, is the user's own code.

    Keras's Distiller counts as a user's: its loss takes means over a replica's samples, too.
    """
    return any(is_overridden(model, name) for name in (step, "compute_loss"))


def is_overridden(model: Any, name: str) -> bool:
    """Returns whether `model` has a method `name` that is neither Keras's nor that of `distill`, which counts as
    Keras's."""
    if name in vars(model) and not is_distilled(vars(model)[name]):
        return True
    owner = next(cls for cls in type(model).__mro__ if name in cls.__dict__)
    return not owner.__module__.startswith(_KERAS) or owner.__module__.startswith(_DISTILLATION)
