"""Averages of weights (EMA), which belong to an optimizer's state: each worker holds those of what it updates."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from tfdist.keras_repairs.base.replica_copies import is_of_this_replica
from tfdist.keras_repairs.sharding.optimizer_policy import OptimizerPolicy, policy_of
from tfdist.keras_repairs.sharding.variable_policy import VariablePolicy

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
