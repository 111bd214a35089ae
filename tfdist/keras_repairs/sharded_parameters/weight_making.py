"""Cuts the weights of layers as they are made, each right after it has its first value: no more than one is whole."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from tfdist.keras_repairs.base.attached_value import AttachedValue
from tfdist.keras_repairs.base.variables.variables_in_steps import outside_of_replicas
from tfdist.keras_repairs.sharded_parameters.cut_variable import cut_variable, is_cut_variable
from tfdist.keras_repairs.sharded_parameters.layer_scopes import cuts_parameters
from tfdist.runtime.strategy_settings import settings_of

Function = Callable[..., Any]

_IS_WEIGHT: AttachedValue[bool] = AttachedValue("is_weight_to_be_cut")


def add_weight(original: Function) -> Function:
    """Repairs `Layer.add_weight`."""

    def repaired(self: Any, *args: Any, **kwargs: Any) -> Any:
        variable = original(self, *args, **kwargs)
        if cuts_parameters() and not isinstance(self, keras.metrics.Metric):
            if variable._value is None:
                _IS_WEIGHT.set(variable, True)
            else:
                outside_of_replicas(lambda: _cut(variable))
        return variable

    return repaired


def deferred_initialize(original: Function) -> Function:
    """Repairs `keras.Variable._deferred_initialize`, by which a weight that was made in a trace has its first value."""

    def repaired(self: Any) -> None:
        original(self)
        if _IS_WEIGHT.get(self):
            outside_of_replicas(lambda: _cut(self))

    return repaired


def _cut(variable: Any) -> None:
    strategy = tf.distribute.get_strategy()
    shard = settings_of(strategy).shard
    value = variable._value
    if shard is None or is_cut_variable(variable) or variable.overwrite_with_gradient:
        return
    # What the chief makes for itself while it saves no other worker has.
    is_of_all = isinstance(value, tf.distribute.DistributedValues)
    if is_of_all and variable.trainable and value.dtype.is_floating and _size(value) >= shard.whole_below:
        cut_variable(variable, strategy)


def _size(value: Any) -> int:
    return int(value.shape.num_elements())
