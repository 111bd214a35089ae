"""A Keras variable of which this worker holds a part.

It has the shape of the whole and is read, assigned, saved and counted as any other. To read it takes all workers: in a
function as an operation of the graph, outside of one in host memory.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeGuard

import keras
import numpy as np
import tensorflow as tf
from keras.src.backend.common import stateless_scope, variables

from tfdist.keras_repairs.base.attached_value import AttachedValue
from tfdist.keras_repairs.files.arrays.late_arrays import LateArray
from tfdist.keras_repairs.files.arrays.stored_values import read_part
from tfdist.keras_repairs.sharded_parameters.gathered_reads import read
from tfdist.keras_repairs.sharded_parameters.part_storage import PartStorage
from tfdist.runtime.local_variables import local_variables
from tfdist.runtime.strategy_settings import shares_of
from tfdist.runtime.transport.part_sums import cut_off
from tfdist.sharding.cut import evenly

_STORAGE: AttachedValue[PartStorage] = AttachedValue("part_storage")
_WHOLE: AttachedValue[tf.Tensor | Callable[[], tf.Tensor]] = AttachedValue("whole_to_be_saved")


class CutVariable(keras.Variable):
    """See the module. Variables become ones by `cut_variable`, once they have their first value."""

    @property
    def value(self) -> tf.Tensor:
        """The whole, as a tensor. All workers read it together."""
        found = None
        if stateless_scope.in_stateless_scope():
            found = stateless_scope.get_stateless_scope().get_current_value(self)
        if found is None or found is self._value:  # A scope may know no more than what is stored.
            found = _WHOLE.get(self)
        if found is not None:
            return self._maybe_autocast(found() if callable(found) else found)
        return read(_storage(self), _dtype_of_reads(self))

    @property
    def handle(self) -> Any:
        """What gradients flow to: that of the part."""
        return self._value.handle

    def numpy(self) -> np.ndarray:
        """The whole. All workers call this together."""
        return np.asarray(self.value)

    def assign(self, value: Any) -> Any:
        """Takes this worker's part of a whole value, of which nothing else is read where it is in a file."""
        storage = _storage(self)
        if not isinstance(value, LateArray) or tuple(value.shape) != storage.cut.shape:
            return super().assign(value)
        part = keras.ops.convert_to_tensor(read_part(value.dataset, storage.cut, storage.worker), dtype=self._dtype)
        self._value.assign(tf.cast(part, self._value.dtype), read_value=False)
        return part

    def _direct_assign(self, value: Any) -> None:
        storage = _storage(self)
        own = cut_off(tf.cast(value, self._value.dtype), storage.cut, storage.worker)
        self._value.assign(own, read_value=False)

    def __repr__(self) -> str:
        """Without its value, which no worker has alone."""
        parts = _storage(self).cut.workers
        return f"<Variable path={self.path}, shape={self.shape}, dtype={self.dtype}, in {parts} parts>"


def is_cut_variable(variable: Any) -> TypeGuard[CutVariable]:
    """Whether this worker holds a part of a variable."""
    return isinstance(variable, CutVariable)


def storage_of(variable: CutVariable) -> PartStorage:
    """What this worker holds of a variable."""
    return _storage(variable)


def cut_variable(variable: keras.Variable, strategy: tf.distribute.Strategy) -> None:
    """Makes a variable, which has its first value on all workers, one of which each worker holds a part."""
    whole = tf.convert_to_tensor(variable._value)
    shares, worker = shares_of(strategy)
    cut = evenly(tuple(whole.shape), shares)
    with tf.init_scope(), local_variables():
        part = tf.Variable(cut_off(whole, cut, worker), trainable=True, name=variable.name)
    variable._value = part
    _STORAGE.set(variable, PartStorage(part, cut, worker, strategy))
    variable.__class__ = CutVariable


def read_whole(variable: CutVariable) -> tf.Tensor:
    """The whole, whatever a scope says of the variable."""
    return read(_storage(variable), variable._value.dtype)


def set_whole(variable: CutVariable, whole: tf.Tensor | Callable[[], tf.Tensor] | None) -> None:
    """Gives a variable a whole value to be read instead, or what returns it, as it is saved; None ends that."""
    _WHOLE.set(variable, whole)


def _storage(variable: Any) -> PartStorage:
    storage = _STORAGE.get(variable)
    assert storage is not None, "cut_variable has set it"
    return storage


def _dtype_of_reads(variable: keras.Variable) -> tf.DType:
    """What Keras would cast the value to: a part is cast before it is sent."""
    scope = variables.get_autocast_scope()
    stored = variable._value.dtype
    if not variable._autocast or scope is None or scope.dtype is None:
        return stored
    return tf.as_dtype(scope.dtype)
