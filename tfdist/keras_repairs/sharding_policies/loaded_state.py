"""This worker's shards of an optimizer's state, where it is loaded."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tfdist.keras_repairs.base.model_optimizers import optimizers_of
from tfdist.keras_repairs.base.stored_values import stored_value
from tfdist.keras_repairs.sharding_policies.optimizer_policy import (
    is_sharded,
    policies_of,
    policy_of,
    updating_optimizers,
)
from tfdist.keras_repairs.sharding_policies.shards import Shard

Function = Callable[..., Any]


def full_shape(optimizer: Any, variable: Any) -> tuple[int, ...]:
    """The shape that a variable of an optimizer's state has on one device."""
    shard = _shard_of(optimizer, variable)
    return tuple(variable.shape) if shard is None else shard.full_shape


def restore_accumulated(model: Any, values: Mapping[str, NDArray]) -> None:
    """Gives accumulators their shards of sums that replicas had in part, in a checkpoint of a run that was not cut.

    Args:
        model: Built and compiled, its optimizer loaded.
        values: Those of the checkpoint's replicas, see `training_state`.
    """
    number = 0
    for optimizer in optimizers_of(model):
        policy = policy_of(optimizer) if optimizer.built else None
        for variable in getattr(optimizer, "_accumulated_gradients", None) or ():
            rows = values.get(f"accumulated/{number}")
            if policy is not None and rows is not None:
                total, shard = rows.sum(axis=0, dtype=rows.dtype), policy.shard_of(variable)
                variable.assign(total if shard is None else shard.read(total))
            number += 1


def load_own_variables(original: Function) -> Function:
    """Repairs `BaseOptimizer.load_own_variables`: each worker takes its shards."""

    def repaired(self: Any, store: Any) -> None:
        if not is_sharded(self):
            original(self, store)
            return
        if len(store.keys()) != len(self.variables):
            warnings.warn(
                f"Skipping variable loading for optimizer '{self.name}', because it has {len(self.variables)} "
                f"variables whereas the saved optimizer has {len(store.keys())} variables. ",
                stacklevel=2,
            )
            return
        # One after another: together they are as much as all workers hold of it.
        _load(self, (stored_value(store, str(number)) for number in range(len(self.variables))))

    return repaired


def set_weights(original: Function) -> Function:
    """Repairs `BaseOptimizer.set_weights`."""

    def repaired(self: Any, weights: Sequence[Any]) -> None:
        if not is_sharded(self):
            original(self, weights)
        else:
            _load(self, weights)

    return repaired


def _load(optimizer: Any, values: Iterable[Any]) -> None:
    for variable, value in zip(optimizer.variables, values, strict=False):
        shape = full_shape(optimizer, variable)
        if tuple(value.shape) != shape:
            raise ValueError(
                f"Optimizer variable {variable.path} has shape {shape} not compatible with provided weight shape "
                f"{tuple(value.shape)}."
            )
        shard = _shard_of(optimizer, variable)
        variable.assign(np.asarray(value) if shard is None else shard.read(value))


def _shard_of(optimizer: Any, variable: Any) -> Shard | None:
    found = (policy.shard_of(variable) for policy in policies_of(updating_optimizers(optimizer)))
    return next((shard for shard in found if shard is not None), None)
