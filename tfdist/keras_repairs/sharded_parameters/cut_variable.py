"""A Keras variable of which this worker stores a shard.

It has the shape of the full value and is read, assigned, saved and counted as any other. To read it takes all workers:
in a function as an operation of the graph, outside of one in host memory. Weights of layers are cut as they are made:
each worker draws the first values of its shard alone. Where the initializer cannot make a part, or is another one on
another worker, the full value of the chief is cut right after it is made.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeGuard

import keras
import numpy as np
import tensorflow as tf
from keras.src.backend.common import global_state, stateless_scope, variables

from tfdist.keras_repairs.base.attached_value import AttachedValue
from tfdist.keras_repairs.base.stored_values import LateArray
from tfdist.keras_repairs.base.variables import outside_of_replicas
from tfdist.keras_repairs.draw_slices.initial_values import agreed_values
from tfdist.keras_repairs.sharded_parameters.flat_weights import FlatParameterShard
from tfdist.keras_repairs.sharded_parameters.gathered_reads import read
from tfdist.keras_repairs.sharded_parameters.model_parallel import laid_out, lay_out, model_parallel
from tfdist.keras_repairs.sharded_parameters.parameter_shard import ParameterShard
from tfdist.keras_repairs.sharding_policies.shards import cuts_parameters
from tfdist.runtime.collectives.array_all_gather import as_tensor
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


def cut_variable(variable: keras.Variable, shard: ParameterShard) -> None:
    """Has a worker store of a variable, which has its first value on all of them, nothing but its shard."""
    _store(variable, shard, shard.stored_of(tf.convert_to_tensor(variable._value)))


def flat_shard(variable: keras.Variable, strategy: tf.distribute.Strategy) -> FlatParameterShard:
    """The range of a variable that this worker is to store, where all workers share it."""
    shares, worker = shares_of(strategy)
    return FlatParameterShard(variable, evenly(tuple(variable.shape), shares), worker, strategy)


def _store(variable: Any, shard: ParameterShard, own: tf.Tensor) -> None:
    with tf.init_scope(), local_variables():
        variable._value = tf.Variable(own, trainable=True, name=variable.name)
    variable.shard = shard
    variable.__class__ = CutVariable


def read_whole(variable: CutVariable) -> tf.Tensor:
    """The full value, whatever a scope says of the variable."""
    return read(variable.shard, variable._value.dtype)


def add_weight(original: Function) -> Function:
    """Repairs `Layer.add_weight`: a weight has its first value once it is known how it is cut.

    So Keras makes it in a stateless scope, and it has its value after that, in `deferred_initialize`.
    """

    def repaired(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not (cuts_parameters() or model_parallel() is not None) or isinstance(self, keras.metrics.Metric):
            return original(self, *args, **kwargs)
        if stateless_scope.in_stateless_scope():
            return _known(original(self, *args, **kwargs), self)
        # Keras initializes the variables of this list where any scope ends, also one that an initializer opens.
        waiting = global_state.get_global_attribute("uninitialized_variables", [], set_to_default=True)
        before = len(waiting)
        try:
            with keras.StatelessScope(initialize_variables=False):
                variable = _known(original(self, *args, **kwargs), self)
        finally:
            del waiting[before:]
        try:
            variable._deferred_initialize()
        except BaseException:
            self._untrack_variable(variable)
            raise
        return variable

    return repaired


def _known(variable: Any, layer: Any) -> Any:
    """A weight that a layer has just made, once it is known how it is to be cut."""
    lay_out(variable, layer)
    _IS_WEIGHT.set(variable, variable.trainable)
    return variable


def was_trained(variable: keras.Variable) -> bool:
    """Returns whether a weight was trained when a layer made it under a layout map, and so may be cut.

    To freeze it later, as LoRA does, changes nothing of that.
    """
    return bool(_IS_WEIGHT.get(variable))


def deferred_initialize(original: Function) -> Function:
    """Repairs `keras.Variable._deferred_initialize`: of a weight that is cut a worker makes its shard where it can."""

    def initialized(self: Any) -> None:
        shard = _shard_to_store(self)
        # What the chief makes for itself while it saves no other worker has.
        if shard is None or not _is_of_all_workers():
            original(self)
            return
        # Also where a function is traced, in whose graph nothing has a value yet.
        with tf.init_scope():
            values = agreed_values(self._initializer, shard.full_shape, self._dtype, self.path)
            if values is None:
                original(self)
                cut_variable(self, shard)
                return
            _store(self, shard, tf.raw_ops.DeepCopy(x=as_tensor(shard.read(values))))
        self._initializer = None

    def repaired(self: Any) -> None:
        if _IS_WEIGHT.get(self) and self._value is None and not stateless_scope.in_stateless_scope():
            outside_of_replicas(lambda: initialized(self))
        else:
            original(self)

    return repaired


def _is_of_all_workers() -> bool:
    """Returns whether all workers make the variables that this one makes now."""
    with tf.init_scope():
        return isinstance(tf.Variable(0.0), tf.distribute.DistributedValues)


def _shard_to_store(variable: Any) -> ParameterShard | None:
    """What this worker is to store of a weight; None where it is to have all of it."""
    if not tf.distribute.has_strategy():
        return None
    if variable.overwrite_with_gradient or not variable.trainable or not tf.as_dtype(variable._dtype).is_floating:
        return None
    strategy = tf.distribute.get_strategy()
    own = laid_out(variable, strategy)
    if own is not None:
        return own
    shard, size = settings_of(strategy).shard, int(np.prod(variable.shape))
    is_cut = shard is not None and shard.cuts("parameters") and size >= shard.whole_below
    return flat_shard(variable, strategy) if is_cut else None


def _dtype_of_reads(variable: keras.Variable) -> tf.DType:
    """Returns what Keras would cast the value to: a shard is cast before it is sent."""
    scope = variables.get_autocast_scope()
    stored = variable._value.dtype
    if not variable._autocast or scope is None or scope.dtype is None:
        return stored
    return tf.as_dtype(scope.dtype)
