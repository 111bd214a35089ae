"""A tensor on disk that stands in for a variable: it is in memory while operations read it, and no longer."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from tfdist.runtime.offload.scratch_file import ScratchFile
from tfdist.runtime.workers import local_variables

IN_MEMORY = 2
"""Variables whose state may be in memory at once: one is updated while that of another is read or written."""


class Held(Protocol):
    """A tensor of the file, as it is held in memory for an update.

    Attributes:
        room: Has the value while it is in memory.
    """

    room: tf.Variable

    def load(self, turn: tf.Tensor | None = None) -> tf.Tensor:
        """An operation that reads the value, after what `turn` is made of."""

    def store(self, value: tf.Tensor, *, is_ordered: bool = True) -> tf.Tensor:
        """An operation that writes the value, and returns 1 where that is used."""


class Turns:
    """Has operations on one file run in the order of the program, in functions and their branches.

    TensorFlow keeps the order of operations on one variable. Each of these is between two on a variable of its own, so
    that they run one after another; but those of `updates`, which are ordered among themselves.
    """

    def __init__(self) -> None:
        with tf.init_scope(), local_variables(), tf.device("CPU:0"):
            self._turn = tf.Variable(0, dtype=tf.int64, trainable=False, name="turn")
        self._updates: Updates | None = None

    def run(self, operation: Callable[[], Any]) -> Any:
        """Returns what `operation`, which makes an operation of a function's graph, returns."""
        before = [] if self._updates is None else self._updates.stores
        with tf.device("CPU:0"), tf.control_dependencies([self._turn.assign_add(1), *before]):
            made = operation()
        with tf.device("CPU:0"), tf.control_dependencies([made]):
            self._turn.assign_add(1, read_value=False)
        return made

    @contextlib.contextmanager
    def updates(self) -> Iterator[Updates]:
        """Inside, in a function, variables are updated one after another."""
        if self._updates is not None:
            raise RuntimeError("updates of the same state are within one another")
        self._updates = Updates(self._turn)
        try:
            yield self._updates
            if self._updates.stores:
                with tf.device("CPU:0"):
                    self._turn.assign_add(tf.add_n(self._updates.stores), read_value=False)
        finally:
            self._updates = None

    def room(self, tensor: Held, *, changes: bool = False) -> tf.Variable | None:
        """The variable that has a tensor's value while `updates` update a variable; None where they do not.

        Args:
            tensor: Of this file.
            changes: Whether the value changes there.
        """
        return None if self._updates is None else self._updates.room(tensor, changes=changes)


class Updates:
    """Updates of variables whose state is in the file, one after another.

    What one of them uses of its state is read once, before it, and written once, when it is over; both while gradients
    come and the one beside it is computed. It is read after that of the one before, and not before what the second last
    one has changed is written: the state of `IN_MEMORY` variables is in memory at most. Nothing waits for a gradient
    but what is computed with it: where more than that depends on one, TensorFlow multiplies its factors in another
    order, and the numbers are others.

    TensorFlow would run operations in Python, among them those that sum gradients, in the order in which they are
    traced, and no update before the last sum. These are said to have no effects, which are ordered by what they are
    given and what they return: whatever they do is between two changes of the variable of the turns.

    Attributes:
        stores: What has been written.
    """

    def __init__(self, turn: tf.Variable) -> None:
        self.stores: list[tf.Tensor] = []
        self._turn = turn
        self._graph: Any = None
        self._rooms: dict[int, Held] = {}
        self._changed: set[int] = set()
        self._loads: list[tf.Tensor] = []
        # Of each update before that had state in the file.
        self._ends: list[list[tf.Tensor]] = []
        self._loads_before: list[tf.Tensor] = []
        self._last_store: dict[int, tf.Tensor] = {}

    @contextlib.contextmanager
    def of_variable(self) -> Iterator[None]:
        """Inside, one variable is updated."""
        self._graph = tf.compat.v1.get_default_graph()
        yield
        self._graph = None
        if not self._rooms:
            return
        self._ends.append([self._let_go(tensor) for tensor in self._rooms.values()])
        self._loads_before = self._loads
        self._rooms, self._changed, self._loads = {}, set(), []

    def room(self, tensor: Held, *, changes: bool) -> tf.Variable | None:
        """See `Turns.room`."""
        key = id(tensor)
        if key not in self._rooms:
            # What a branch reads may not be read in this run of the function.
            if self._graph is None or tf.compat.v1.get_default_graph() is not self._graph:
                return None
            self._rooms[key] = tensor
            self._load(tensor)
        if changes:
            self._changed.add(key)
        return tensor.room

    def _load(self, tensor: Held) -> None:
        with tf.device("CPU:0"):
            turn = self._turn.read_value()
        before = [*self._loads_before]
        if len(self._ends) >= IN_MEMORY:
            before += self._ends[-IN_MEMORY]
        if id(tensor) in self._last_store:
            before.append(self._last_store[id(tensor)])
        with tf.device("CPU:0"), tf.control_dependencies(before):
            value = tensor.load(turn)
        self._loads.append(value)
        tensor.room.assign(value, read_value=False)

    def _let_go(self, tensor: Held) -> tf.Tensor:
        """Returns what is there once a tensor's value is written, or needs not be, and is no longer in memory."""
        value = tensor.room.read_value()
        if id(tensor) in self._changed:
            with tf.device("CPU:0"):
                end = tensor.store(value, is_ordered=False)
            self.stores.append(end)
            self._last_store[id(tensor)] = end
        else:
            with tf.device("CPU:0"), tf.control_dependencies([value]):
                end = tf.constant(0, tf.int64)
        none = tf.zeros([0] * tensor.room.shape.rank, tensor.room.dtype)
        tensor.room.assign(none, read_value=False)
        return end


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
