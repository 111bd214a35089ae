"""Initial values of variables, which all workers have from the chief."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import tensorflow as tf
from tensorflow.python.trackable.base import CheckpointInitialValue

from tfdist.runtime.collectives.chief_broadcast import is_taken, value_from_chief

Function = Callable[..., Any]


def variable_creator_initial_value(original: Function) -> Function:
    """Repairs `CollectiveAllReduceExtended._get_variable_creator_initial_value`.

    TensorFlow broadcasts over the network, also where workers share memory, and not every dtype.
    """

    @functools.wraps(original)
    def repaired(extended: Any, replica_id: int, device: str, primary_var: Any, **kwargs: Any) -> Any:
        strategy = extended._container_strategy()
        if replica_id != 0:
            return original(extended, replica_id, device, primary_var, **kwargs)

        def initial_value() -> tf.Tensor:
            with tf.device(device):
                value = _own_value(kwargs["initial_value"], kwargs.get("dtype"))
                name = kwargs.get("name") or "Variable"
                if is_taken(value, name, strategy):
                    return value_from_chief(value, name, strategy)
            as_before = {**kwargs, "initial_value": value}
            return original(extended, replica_id, device, primary_var, **as_before)()

        return initial_value

    return repaired


def _own_value(initial_value: Any, dtype: Any) -> tf.Tensor:
    """Returns what TensorFlow's function takes for this worker's value."""
    value = initial_value() if callable(initial_value) else initial_value
    if isinstance(value, CheckpointInitialValue):
        value = value.wrapped_value
    return tf.convert_to_tensor(value, dtype=dtype)
