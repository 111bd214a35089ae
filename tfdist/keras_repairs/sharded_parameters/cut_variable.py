"""A Keras variable of which this worker stores a shard.

It has the shape of the full value and is read, assigned, saved and counted as any other. To read it takes all workers:
in a function as an operation of the graph, outside of one in host memory. Weights of layers are cut as they are made,
each right after it has its first value: no more than one is full.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeGuard

import keras
import numpy as np
import tensorflow as tf
from keras.src.backend.common import stateless_scope, variables

from tfdist.keras_repairs.base.attached_value import AttachedValue
from tfdist.keras_repairs.base.stored_values import LateArray
from tfdist.keras_repairs.base.variables import outside_of_replicas
from tfdist.keras_repairs.sharded_parameters.flat_weights import FlatParameterShard
from tfdist.keras_repairs.sharded_parameters.gathered_reads import read
from tfdist.keras_repairs.sharded_parameters.model_parallel import laid_out, lay_out, model_parallel
from tfdist.keras_repairs.sharded_parameters.parameter_shard import ParameterShard
from tfdist.keras_repairs.sharding_policies.shards import cuts_parameters
from tfdist.runtime.strategy_settings import settings_of, shares_of
from tfdist.runtime.workers import local_variables
from tfdist.sharding.cut import evenly

Function = Callable[..., Any]

_IS_WEIGHT: AttachedValue[bool] = AttachedValue("is_weight_to_be_cut")


class CutVariable(keras.Variable):
    """See the module. Variables become ones by `cut_variable`, once they have their first value."""

    shard: ParameterShard
    """The shard: what this worker stores of it."""

    @property
    def value(self) -> tf.Tensor:
        """The full value, as a tensor. All workers read it together."""
        found = None
        if stateless_scope.in_stateless_scope():
            found = stateless_scope.get_stateless_scope().get_current_value(self)
        if found is None or found is self._value:  # A scope may know no more than what is stored.
            found = self.shard.shown
        if found is not None:
            return self._maybe_autocast(found)
        dtype = _dtype_of_reads(self)
        stand_in = self.shard.in_slices(dtype)
        return read(self.shard, dtype) if stand_in is None else stand_in

    @property
    def handle(self) -> Any:
        """What gradients flow to: that of the shard."""
        return self._value.handle

    def numpy(self) -> np.ndarray:
        """The full value. All workers call this together."""
        return np.asarray(self.value)

    def assign(self, value: Any) -> Any:
        """Takes this worker's shard of a full value, of which nothing else is read where it is in a file."""
        if not isinstance(value, LateArray) or tuple(value.shape) != self.shard.full_shape:
            return super().assign(value)
        own = keras.ops.convert_to_tensor(self.shard.read(value.dataset), dtype=self._dtype)
        self._value.assign(tf.cast(own, self._value.dtype), read_value=False)
        return own

    def _direct_assign(self, value: Any) -> None:
        self._value.assign(self.shard.stored_of(tf.cast(value, self._value.dtype)), read_value=False)

    def __repr__(self) -> str:
        """Without its value, which no worker has alone."""
        return f"<Variable path={self.path}, shape={self.shape}, dtype={self.dtype}, sharded>"


def is_cut_variable(variable: Any) -> TypeGuard[CutVariable]:
    """Returns whether this worker stores a shard of a variable."""
    return isinstance(variable, CutVariable)


def cut_variable(variable: keras.Variable, strategy: tf.distribute.Strategy) -> None:
    """Makes a variable, which has its first value on all workers, one of which each worker stores a range."""
    shares, worker = shares_of(strategy)
    store_shard(variable, FlatParameterShard(variable, evenly(tuple(variable.shape), shares), worker, strategy))


def store_shard(variable: keras.Variable, shard: ParameterShard) -> None:
    """Has a worker store of a variable, which has its first value on all of them, nothing but its shard."""
    own = shard.stored_of(tf.convert_to_tensor(variable._value))
    with tf.init_scope(), local_variables():
        variable._value = tf.Variable(own, trainable=True, name=variable.name)
    variable.shard = shard
    variable.__class__ = CutVariable


def read_whole(variable: CutVariable) -> tf.Tensor:
    """The full value, whatever a scope says of the variable."""
    return read(variable.shard, variable._value.dtype)


def add_weight(original: Function) -> Function:
    """Repairs `Layer.add_weight`."""

    def repaired(self: Any, *args: Any, **kwargs: Any) -> Any:
        variable = original(self, *args, **kwargs)
        if (cuts_parameters() or model_parallel() is not None) and not isinstance(self, keras.metrics.Metric):
            lay_out(variable, self)
            _IS_WEIGHT.set(variable, variable.trainable)
            if variable._value is not None:
                outside_of_replicas(lambda: _cut(variable))
        return variable

    return repaired


def was_trained(variable: keras.Variable) -> bool:
    """Returns whether a weight was trained when a layer made it under a layout map, and so may be cut.

    To freeze it later, as LoRA does, changes nothing of that.
    """
    return bool(_IS_WEIGHT.get(variable))


def deferred_initialize(original: Function) -> Function:
    """Repairs `keras.Variable._deferred_initialize`, by which a weight that was made in a trace has its first value."""

    def repaired(self: Any) -> None:
        original(self)
        if _IS_WEIGHT.get(self):
            outside_of_replicas(lambda: _cut(self))

    return repaired


def _cut(variable: Any) -> None:
    strategy = tf.distribute.get_strategy()
    value = variable._value
    # What the chief makes for itself while it saves no other worker has.
    is_of_all = isinstance(value, tf.distribute.DistributedValues)
    is_shared = is_of_all and not is_cut_variable(variable) and not variable.overwrite_with_gradient
    if not is_shared or not variable.trainable or not value.dtype.is_floating:
        return
    own = laid_out(variable, strategy)
    shard = settings_of(strategy).shard
    if own is not None:
        store_shard(variable, own)
    elif shard is not None and shard.cuts("parameters") and int(value.shape.num_elements()) >= shard.whole_below:
        cut_variable(variable, strategy)


def _dtype_of_reads(variable: keras.Variable) -> tf.DType:
    """Returns what Keras would cast the value to: a shard is cast before it is sent."""
    scope = variables.get_autocast_scope()
    stored = variable._value.dtype
    if not variable._autocast or scope is None or scope.dtype is None:
        return stored
    return tf.as_dtype(scope.dtype)
