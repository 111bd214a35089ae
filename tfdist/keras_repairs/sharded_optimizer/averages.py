"""Averages of weights (EMA), which belong to an optimizer's state: each worker holds those of its parts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from tfdist.keras_repairs.base.replica_copies import is_of_this_replica
from tfdist.keras_repairs.sharded_embeddings.table_variable import TableVariable
from tfdist.keras_repairs.sharding.optimizer_policy import OptimizerPolicy, policy_of

Function = Callable[..., Any]


def update(original: Function) -> Function:
    """Repairs `BaseOptimizer._update_model_variables_moving_average`."""

    def repaired(self: Any, trainable_variables: Sequence[Any]) -> None:
        original(self, _part_variables(self, trainable_variables))

    return repaired


def overwrite(original: Function) -> Function:
    """Repairs `TFOptimizer._overwrite_model_variables_with_average_value`, in a step and at the end of `fit`."""

    def repaired(self: Any, trainable_variables: Sequence[Any]) -> None:
        policy = policy_of(self)
        if policy is None or is_of_this_replica():
            original(self, _part_variables(self, trainable_variables))
            return
        for variable, average in zip(trainable_variables, self._model_variables_moving_average, strict=True):
            if average is not None and _is_table(policy, variable):
                policy.updated(variable).assign(average)
            elif average is not None:
                variable.assign(_full(policy, average))

    return repaired


def swap_all(original: Function) -> Function:
    """Repairs `SwapEMAWeights._tf_swap_variables`: all workers put each average together, and keep their parts."""

    def repaired(self: Any, optimizer: Any) -> None:
        policy = policy_of(optimizer)
        if policy is None:
            original(self, optimizer)
            return
        for variable, average in _averaged(optimizer):
            if _is_table(policy, variable):
                own = policy.updated(variable)
                before = tf.identity(own.value)
                own.assign(average)
                average.assign(before)
                continue
            before = tf.convert_to_tensor(variable)
            variable.assign(_full(policy, average))
            average.assign(_own(policy, average, before))

    return repaired


def finalize_all(original: Function) -> Function:
    """Repairs `SwapEMAWeights._tf_finalize_ema_values`."""

    def repaired(self: Any, optimizer: Any) -> None:
        policy = policy_of(optimizer)
        if policy is None:
            original(self, optimizer)
            return
        for variable, average in _averaged(optimizer):
            if _is_table(policy, variable):
                average.assign(policy.updated(variable))
            else:
                average.assign(_own(policy, average, tf.convert_to_tensor(variable)))

    return repaired


def _averaged(optimizer: Any) -> list[tuple[Any, Any]]:
    pairs = zip(optimizer._trainable_variables, optimizer._model_variables_moving_average, strict=True)
    return [(variable, average) for variable, average in pairs if average is not None]


def _part_variables(optimizer: Any, variables: Sequence[Any]) -> Sequence[Any]:
    policy = policy_of(optimizer)
    return variables if policy is None else [policy.updated(variable) for variable in variables]


def _is_table(policy: OptimizerPolicy, variable: Any) -> bool:
    part = policy.of(variable)
    return part is not None and isinstance(part.whole, TableVariable)


def _full(policy: OptimizerPolicy, average: Any) -> Any:
    """The full value of an average. All workers call this together, outside of functions."""
    shard = policy.shard_of(average)
    return average.numpy() if shard is None else shard.full()


def _own(policy: OptimizerPolicy, average: Any, full: Any) -> Any:
    """What this worker has of a full value for an average."""
    shard = policy.shard_of(average)
    return full if shard is None else shard.of(full)
