"""Averages of weights (EMA), which belong to an optimizer's state: each worker holds those of its parts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from tfdist.keras_repairs.base.replica_copies import is_of_this_replica
from tfdist.keras_repairs.sharded_embeddings.table_variable import TableVariable
from tfdist.keras_repairs.sharded_optimizer.optimizer_parts import OptimizerParts, parts_of, updated
from tfdist.keras_repairs.sharded_optimizer.whole_slots import own_part, whole_value

Function = Callable[..., Any]


def update(original: Function) -> Function:
    """Repairs `BaseOptimizer._update_model_variables_moving_average`."""

    def repaired(self: Any, trainable_variables: Sequence[Any]) -> None:
        original(self, _part_variables(self, trainable_variables))

    return repaired


def overwrite(original: Function) -> Function:
    """Repairs `TFOptimizer._overwrite_model_variables_with_average_value`, in a step and at the end of `fit`."""

    def repaired(self: Any, trainable_variables: Sequence[Any]) -> None:
        found = parts_of(self)
        if found is None or is_of_this_replica():
            original(self, _part_variables(self, trainable_variables))
            return
        for variable, average in zip(trainable_variables, self._model_variables_moving_average, strict=True):
            if average is not None and _is_table(found, self, variable):
                updated(found, self, variable).assign(average)
            elif average is not None:
                variable.assign(whole_value(self, average))

    return repaired


def swap_all(original: Function) -> Function:
    """Repairs `SwapEMAWeights._tf_swap_variables`: all workers put each average together, and keep their parts."""

    def repaired(self: Any, optimizer: Any) -> None:
        found = parts_of(optimizer)
        if found is None:
            original(self, optimizer)
            return
        for variable, average in _averaged(optimizer):
            if _is_table(found, optimizer, variable):
                own = updated(found, optimizer, variable)
                before = tf.identity(own.value)
                own.assign(average)
                average.assign(before)
                continue
            before = tf.convert_to_tensor(variable)
            variable.assign(whole_value(optimizer, average))
            average.assign(own_part(found, average, before))

    return repaired


def finalize_all(original: Function) -> Function:
    """Repairs `SwapEMAWeights._tf_finalize_ema_values`."""

    def repaired(self: Any, optimizer: Any) -> None:
        found = parts_of(optimizer)
        if found is None:
            original(self, optimizer)
            return
        for variable, average in _averaged(optimizer):
            if _is_table(found, optimizer, variable):
                average.assign(updated(found, optimizer, variable))
            else:
                average.assign(own_part(found, average, tf.convert_to_tensor(variable)))

    return repaired


def _averaged(optimizer: Any) -> list[tuple[Any, Any]]:
    pairs = zip(optimizer._trainable_variables, optimizer._model_variables_moving_average, strict=True)
    return [(variable, average) for variable, average in pairs if average is not None]


def _part_variables(optimizer: Any, variables: Sequence[Any]) -> Sequence[Any]:
    found: OptimizerParts | None = parts_of(optimizer)
    if found is None:
        return variables
    return [updated(found, optimizer, variable) for variable in variables]


def _is_table(found: OptimizerParts, optimizer: Any, variable: Any) -> bool:
    part = found.parts.get(optimizer._var_key(variable))
    return part is not None and isinstance(part.whole, TableVariable)
