"""A tensor on disk that stands in for a variable: it is in memory while operations read it, and no longer."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from tfdist.runtime.local_variables import local_variables
from tfdist.runtime.offload.disk_turns import Turns
from tfdist.runtime.offload.scratch_file import ScratchFile


class DiskTensor:
    """The value of a variable of an optimizer, with those methods of `tf.Variable` that optimizers use.

    Args:
        file: Where it is.
        turns: Those of the file.
        value: Its first value.
        name: For errors.

    Attributes:
        room: Has the value while it is in memory for an update.
    """

    def __init__(self, file: ScratchFile, turns: Turns, value: NDArray, name: str) -> None:
        self.shape = tf.TensorShape(value.shape)
        self.dtype = tf.as_dtype(value.dtype)
        self.name = name
        self._file, self._turns = file, turns
        none = [0] * len(self.shape)
        with tf.init_scope(), local_variables(), tf.device("CPU:0"):
            self.room = tf.Variable(tf.zeros(none, self.dtype), trainable=False, shape=[None] * len(none))
        self._start = file.take(math.prod(value.shape) * self.dtype.size, name)
        if value.any():
            file.write(self._start, value)

    def numpy(self) -> NDArray:
        """The value, read now."""
        return self._file.read(self._start, tuple(self.shape), np.dtype(self.dtype.as_numpy_dtype))

    def load(self, turn: tf.Tensor | None = None) -> tf.Tensor:
        """An operation of a function that reads the value.

        Args:
            turn: A number that is computed before. With one, no order is kept but that of what it is made of;
                otherwise TensorFlow runs it after all that was traced before and has effects.
        """
        given = [] if turn is None else [turn]
        return tf.ensure_shape(tf.numpy_function(self._read, given, self.dtype, stateful=turn is None), self.shape)

    def store(self, value: tf.Tensor, *, is_ordered: bool = True) -> tf.Tensor:
        """An operation of a function that writes the value.

        Args:
            value: Of the same shape.
            is_ordered: Whether TensorFlow runs it after all that was traced before and has effects. Otherwise it runs
                where what it returns is used.

        Returns:
            The number 1, int64.
        """
        return tf.numpy_function(self._write, [value], tf.int64, stateful=is_ordered)

    def read_value(self) -> tf.Tensor:
        """The value as a tensor, read where the program is."""
        if tf.executing_eagerly():
            return tf.constant(self.numpy())
        room = self._turns.room(self)
        return self._turns.run(self.load) if room is None else tf.ensure_shape(room.read_value(), self.shape)

    def assign(self, value: Any, use_locking: bool = False, name: Any = None, read_value: bool = True) -> None:
        """Writes a value where the program is; nothing is returned, as it would be read for that."""
        value = tf.ensure_shape(tf.convert_to_tensor(value, self.dtype), self.shape)
        if tf.executing_eagerly():
            self._file.write(self._start, value.numpy())
            return
        room = self._turns.room(self, changes=True)
        if room is None:
            self._turns.run(lambda: self.store(value))
        else:
            room.assign(value, read_value=False)

    def assign_add(self, value: Any) -> None:
        """Adds a tensor of the same shape."""
        with self.as_variable() as variable:
            variable.assign_add(tf.cast(value, self.dtype), read_value=False)

    def assign_sub(self, value: Any) -> None:
        """Subtracts a tensor of the same shape."""
        with self.as_variable() as variable:
            variable.assign_sub(tf.cast(value, self.dtype), read_value=False)

    def scatter_add(self, slices: tf.IndexedSlices) -> None:
        """Adds rows; rows that are named several times are added up."""
        with self.as_variable() as variable:
            variable.scatter_add(slices)

    def scatter_sub(self, slices: tf.IndexedSlices) -> None:
        """Subtracts rows."""
        with self.as_variable() as variable:
            variable.scatter_sub(slices)

    def scatter_update(self, slices: tf.IndexedSlices) -> None:
        """Replaces rows."""
        with self.as_variable() as variable:
            variable.scatter_update(slices)

    @contextlib.contextmanager
    def as_variable(self) -> Iterator[tf.Variable]:
        """Inside, a variable has the value, for operations that change one in place; then it is written."""
        room = None if tf.executing_eagerly() else self._turns.room(self, changes=True)
        if room is not None:  # It is written when the update is over.
            yield room
            return
        self.room.assign(self.read_value(), read_value=False)
        yield self.room
        self.assign(self.room.read_value())
        self.room.assign(tf.zeros([0] * len(self.shape), self.dtype), read_value=False)

    def __tf_tensor__(self, dtype: Any = None, name: Any = None) -> tf.Tensor:
        """The value, where TensorFlow converts what it is given."""
        found = self.read_value()
        return found if dtype is None else tf.cast(found, dtype)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray:
        return np.asarray(self.numpy(), dtype=dtype)

    def _read(self, turn: Any = None) -> NDArray:
        """As `numpy`, in memory that is used again."""
        found = self._file.buffers.take(math.prod(self.shape), np.dtype(self.dtype.as_numpy_dtype))
        self._file.read_into(found, self._start)
        return found.reshape(tuple(self.shape))

    def _write(self, value: NDArray) -> np.int64:
        self._file.write(self._start, value)
        return np.int64(1)


def _tensor_of(value: DiskTensor, dtype: Any = None, name: Any = None, as_ref: bool = False) -> Any:
    return value.__tf_tensor__(dtype, name)


tf.register_tensor_conversion_function(DiskTensor, _tensor_of)
