"""A tensor on disk that stands in for a variable: it is in memory while operations read it, and no longer."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from tfdist.runtime.local_variables import local_variables
from tfdist.runtime.offload.scratch_file import ScratchFile


class Turns:
    """Has operations on one file run in the order of the program, one after another, in functions and their branches.

    TensorFlow keeps the order of operations on one variable; each of these is between two on a variable of its own. So
    what is read for one update waits until what the update before it has written is no longer in memory.
    """

    def __init__(self) -> None:
        with tf.init_scope(), local_variables(), tf.device("CPU:0"):
            self._turn = tf.Variable(0, dtype=tf.int64, trainable=False, name="turn")

    def run(self, operation: Callable[[], Any]) -> Any:
        """What `operation`, which makes an operation of a function's graph, returns."""
        with tf.device("CPU:0"), tf.control_dependencies([self._turn.assign_add(1)]):
            made = operation()
        with tf.device("CPU:0"), tf.control_dependencies([made]):
            self._turn.assign_add(1, read_value=False)
        return made


class DiskTensor:
    """The value of a variable of an optimizer, with those methods of `tf.Variable` that optimizers use.

    Args:
        file: Where it is.
        turns: Those of the file.
        value: Its first value.
        name: For errors.
    """

    def __init__(self, file: ScratchFile, turns: Turns, value: NDArray, name: str) -> None:
        self.shape = tf.TensorShape(value.shape)
        self.dtype = tf.as_dtype(value.dtype)
        self.name = name
        self._file, self._turns = file, turns
        # A function does not keep the variables that it uses.
        self._rooms: list[tf.Variable] = []
        self._start = file.take(math.prod(value.shape) * self.dtype.size, name)
        if value.any():
            file.write(self._start, value)

    def numpy(self) -> NDArray:
        """The value, read now."""
        return self._file.read(self._start, tuple(self.shape), np.dtype(self.dtype.as_numpy_dtype))

    def read_value(self) -> tf.Tensor:
        """The value as a tensor, read where the program is."""
        if tf.executing_eagerly():
            return tf.constant(self.numpy())
        found = self._turns.run(lambda: tf.numpy_function(self.numpy, [], self.dtype, stateful=True))
        return tf.ensure_shape(found, self.shape)

    def assign(self, value: Any, use_locking: bool = False, name: Any = None, read_value: bool = True) -> None:
        """Writes a value where the program is; nothing is returned, as it would be read for that."""
        value = tf.ensure_shape(tf.convert_to_tensor(value, self.dtype), self.shape)
        if tf.executing_eagerly():
            self._file.write(self._start, value.numpy())
            return
        self._turns.run(lambda: tf.numpy_function(self._write, [value], tf.int64, stateful=True))

    def assign_add(self, value: Any) -> None:
        """Adds a tensor of the same shape."""
        self.assign(self.read_value() + tf.cast(value, self.dtype))

    def assign_sub(self, value: Any) -> None:
        """Subtracts a tensor of the same shape."""
        self.assign(self.read_value() - tf.cast(value, self.dtype))

    def scatter_add(self, slices: tf.IndexedSlices) -> None:
        """Adds rows; rows that are named several times are added up."""
        self.assign(tf.tensor_scatter_nd_add(self.read_value(), slices.indices[:, tf.newaxis], slices.values))

    def scatter_sub(self, slices: tf.IndexedSlices) -> None:
        """Subtracts rows."""
        self.assign(tf.tensor_scatter_nd_sub(self.read_value(), slices.indices[:, tf.newaxis], slices.values))

    def scatter_update(self, slices: tf.IndexedSlices) -> None:
        """Replaces rows."""
        self.assign(tf.tensor_scatter_nd_update(self.read_value(), slices.indices[:, tf.newaxis], slices.values))

    @contextlib.contextmanager
    def as_variable(self) -> Iterator[tf.Variable]:
        """Inside, a variable has the value, for operations that change one in place; then it is written."""
        none = [0] * len(self.shape)
        with tf.init_scope(), local_variables(), tf.device("CPU:0"):
            room = tf.Variable(tf.zeros(none, self.dtype), trainable=False, shape=[None] * len(none))
        self._rooms.append(room)
        room.assign(self.read_value(), read_value=False)
        yield room
        self.assign(room.read_value())
        room.assign(tf.zeros(none, self.dtype), read_value=False)

    def __tf_tensor__(self, dtype: Any = None, name: Any = None) -> tf.Tensor:
        """The value, where TensorFlow converts what it is given."""
        found = self.read_value()
        return found if dtype is None else tf.cast(found, dtype)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray:
        return np.asarray(self.numpy(), dtype=dtype)

    def _write(self, value: NDArray) -> np.int64:
        self._file.write(self._start, value)
        return np.int64(0)


def _tensor_of(value: DiskTensor, dtype: Any = None, name: Any = None, as_ref: bool = False) -> Any:
    return value.__tf_tensor__(dtype, name)


tf.register_tensor_conversion_function(DiskTensor, _tensor_of)
