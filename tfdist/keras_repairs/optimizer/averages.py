"""Averages of weights (EMA), which belong to an optimizer's state: each worker holds those of what it updates.

The optimizer copies the weights into its averages when it is built. Plain Keras builds it inside of the first training
step on one device, so that the copy becomes a part of the step, and the average begins anew in every one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import keras
import tensorflow as tf

from tfdist.keras_repairs.base.replica_copies import is_of_this_replica
from tfdist.keras_repairs.base.warn_once import warn_once
from tfdist.keras_repairs.sharding_policies.optimizer_policy import OptimizerPolicy, policy_of
from tfdist.keras_repairs.sharding_policies.variable_policy import VariablePolicy

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


Function = Callable[..., Any]


def update(original: Function) -> Function:
    """Repairs `BaseOptimizer._update_model_variables_moving_average`."""

    def repaired(self: Any, trainable_variables: Sequence[Any]) -> None:
        original(self, _updated(policy_of(self), trainable_variables))

    return repaired


def overwrite(original: Function) -> Function:
    """Repairs `TFOptimizer._overwrite_model_variables_with_average_value`, in a step and at the end of `fit`."""

    def repaired(self: Any, trainable_variables: Sequence[Any]) -> None:
        policy = policy_of(self)
        if policy is None or is_of_this_replica():
            original(self, _updated(policy, trainable_variables))
            return
        for own, average in _averaged(policy, self, trainable_variables):
            own.assign_slot(average)

    return repaired


def swap_all(original: Function) -> Function:
    """Repairs `SwapEMAWeights._tf_swap_variables`: all workers put each average together, and keep their shards."""

    def swap(own: VariablePolicy, average: Any) -> None:
        before = own.own_value()
        own.assign_slot(average)
        average.assign(before)

    return _with_each_average(original, swap)


def finalize_all(original: Function) -> Function:
    """Repairs `SwapEMAWeights._tf_finalize_ema_values`."""
    return _with_each_average(original, lambda own, average: average.assign(own.own_value()))


def _with_each_average(original: Function, change: Callable[[VariablePolicy, Any], object]) -> Function:
    """Repairs a method of `SwapEMAWeights`: under a policy, it changes each average and its variable."""

    def repaired(self: Any, optimizer: Any) -> None:
        policy = policy_of(optimizer)
        if policy is None:
            original(self, optimizer)
            return
        for own, average in _averaged(policy, optimizer, optimizer._trainable_variables):
            change(own, average)

    return repaired


def _averaged(
    policy: OptimizerPolicy, optimizer: Any, variables: Sequence[Any]
) -> Iterator[tuple[VariablePolicy, Any]]:
    for variable, average in zip(variables, optimizer._model_variables_moving_average, strict=True):
        if average is not None:
            yield policy.of(variable), average


def _updated(policy: OptimizerPolicy | None, variables: Sequence[Any]) -> Sequence[Any]:
    return variables if policy is None else [policy.of(variable).updated for variable in variables]
