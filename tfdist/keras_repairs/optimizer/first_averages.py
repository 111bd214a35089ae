"""Begins the average of ScheduleFreeAdamW at the weights, in whatever step the optimizer is built.

The optimizer copies the weights into its averages when it is built. Plain Keras builds it inside of the first training
step on one device, so that the copy becomes a part of the step, and the average begins anew in every one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from tfdist.keras_repairs.base.warn_once import warn_once

Function = Callable[..., Any]

SCHEDULE_FREE: tuple[Any, ...] = tuple(
    kind for name, kind in vars(keras.optimizers).items() if name == "ScheduleFreeAdamW"
)
"""The optimizers whose averages begin at the weights: none before Keras 3.14."""


def build(original: Function) -> Function:
    """Repairs `ScheduleFreeAdamW.build`: what is copied is copied once, when the optimizer is built."""

    def repaired(self: Any, var_list: Any) -> None:
        if tf.inside_function():
            warn_of_plain_keras(self)
        with tf.init_scope():
            original(self, var_list)

    return repaired


def is_to_be_built_first(model: Any) -> bool:
    """Returns whether a model without weights is to be built before its first step: a step's own have no values to copy
    yet."""
    return not model.built and isinstance(model.optimizer, SCHEDULE_FREE)


def warn_of_plain_keras(optimizer: Any) -> None:
    """Warns that `fit` builds an optimizer which plain Keras would begin anew in every step, if it is such a one."""
    if isinstance(optimizer, SCHEDULE_FREE) and not optimizer.built:
        warn_once(
            "The first training step builds ScheduleFreeAdamW. Plain Keras on one device then begins its averages anew "
            "in every step; tfdist keeps them, on one device as on many, so its numbers differ from plain Keras's. "
            "To have the same numbers from both, build it before: optimizer.build(model.trainable_variables)."
        )
