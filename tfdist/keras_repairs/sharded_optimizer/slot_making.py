"""Repairs of how an optimizer makes its state beside the model's variables, and finds it again.

What belongs to a variable is made for this worker's shard of it, never in full, and as a variable of this worker alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf
from keras.src.optimizers.base_optimizer import BaseOptimizer

from tfdist.keras_repairs.sharded_optimizer.policy_choice import choose_policies
from tfdist.keras_repairs.sharded_optimizer.state_sizes import check_memory, is_asked, track_size
from tfdist.keras_repairs.sharding_policies.optimizer_policy import policy_while_built
from tfdist.keras_repairs.sharding_policies.shards import shard_of
from tfdist.keras_repairs.sharding_policies.variable_policy import Replicated
from tfdist.runtime.offload.offloading import on_host
from tfdist.runtime.strategy_settings import settings_of
from tfdist.runtime.workers import local_variables

Function = Callable[..., Any]


def build(original: Function) -> Function:
    """Repairs `BaseOptimizer.build`, which the `build` of every optimizer calls first."""

    def repaired(self: Any, variables: Any) -> None:
        if not is_asked(self):
            check_memory(self, list(variables))
            choose_policies(self, list(variables))
        original(self, variables)

    return repaired


def add_variable(original: Function) -> Function:
    """Repairs `BaseOptimizer.add_variable`."""

    def repaired(self: Any, shape: Any, initializer: Any = "zeros", *args: Any, **kwargs: Any) -> Any:
        if is_asked(self):
            return track_size(self, shape, args[0] if args else kwargs.get("dtype"))
        policy = policy_while_built(self)
        if policy is None or (policy.granularity == "elements" and policy.reference is None):
            return original(self, shape, initializer, *args, **kwargs)
        offload = settings_of(self._distribution_strategy).offload
        with tf.init_scope(), local_variables(), on_host(offload):
            # To which variable it belongs may be known later; then it is made where it is held.
            own = (0,) if policy.reference is None else shape
            variable = original(self, own, initializer, *args, **kwargs)
            if offload is not None:
                offload.keep(variable)
        policy.add_slot(variable, tuple(shape), initializer)
        return variable

    return repaired


def add_variable_from_reference(original: Function) -> Function:
    """Repairs `TFOptimizer.add_variable_from_reference`."""

    def repaired(self: Any, reference_variable: Any, name: Any = None, initializer: Any = "zeros") -> Any:
        policy = policy_while_built(self)
        reference = Replicated(reference_variable) if policy is None else policy.of(reference_variable)
        if policy is None or isinstance(reference, Replicated):
            return original(self, reference_variable, name, initializer)
        with policy.making_slot_of(reference):
            return BaseOptimizer.add_variable_from_reference(self, reference.updated, name, initializer)

    return repaired


def var_key(original: Function) -> Function:
    """Repairs `TFOptimizer._var_key`: what is updated has the key of the model's variable, by which state is found."""

    def repaired(self: Any, variable: Any) -> Any:
        # The value of a variable that is sharded takes all workers to read.
        key = original(self, variable if shard_of(variable) is None else variable._value)
        policy = policy_while_built(self)
        return key if policy is None else policy.key_of_full(key)

    return repaired
