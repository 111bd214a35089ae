"""A table as its model sees it: a variable with all its rows, of which this worker holds some.

Its rows begin with the numbers that one device gives them, made for these rows alone where the initializer allows it
(see `initial_values`). Any other initializer makes the whole table, on each worker for a moment.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from tfdist.errors import UnsupportedError
from tfdist.keras_repairs.base.stored_values import read_shard
from tfdist.keras_repairs.base.variables import outside_of_replicas
from tfdist.keras_repairs.draw_slices.initial_values import agreed_values
from tfdist.keras_repairs.sharding_policies.shards import FlatShard
from tfdist.runtime.collectives.chief_broadcast import PIECE_BYTES, array_from_chief
from tfdist.runtime.workers import local_variables
from tfdist.sharding.cut import Cut

_log = logging.getLogger("tfdist")


def initial_rows(initializer: Any, cut: Cut, worker: int, dtype: str, name: str) -> tf.Tensor:
    """The first values of a worker's rows; all workers call it together, outside of functions.

    Args:
        initializer: Of Keras, or a callable that takes a shape and a dtype.
        cut: Between rows; how the workers share the table.
        worker: This one.
        dtype: Of the table.
        name: Of the table, for messages.

    Returns:
        `[rows of the worker, dim]`. The seed is the chief's, and so are values that are made whole.

    Raises:
        UsageError: The workers make tables of different sizes.
    """
    values = agreed_values(initializer, cut.shape, dtype, name)
    if values is not None:
        return tf.constant(read_shard(values, cut, worker))
    _log.info("%s: %s makes the whole table on each worker, which then keeps its rows", name, initializer)
    whole = tf.convert_to_tensor(initializer(cut.shape, dtype=dtype))
    return tf.concat([_rows_of_chief(whole, start, stop, cut, worker) for start, stop in _pieces(cut, whole)], 0)


def _pieces(cut: Cut, whole: tf.Tensor) -> Iterator[tuple[int, int]]:
    """First and last rows of pieces, of a size that a collective takes."""
    rows = max(1, PIECE_BYTES // max(1, cut.row_size * whole.dtype.size))
    return ((start, min(cut.shape[0], start + rows)) for start in range(0, cut.shape[0], rows))


def _rows_of_chief(whole: tf.Tensor, start: int, stop: int, cut: Cut, worker: int) -> tf.Tensor:
    """A worker's rows among those of a piece of the chief's table."""
    first, last = (bound // cut.row_size for bound in cut.span(worker))
    piece = tf.constant(array_from_chief(whole[start:stop].numpy(), tf.distribute.get_strategy()))
    return piece[max(first - start, 0) : max(last - start, 0)]


class TableShard(FlatShard):
    """A worker's rows of a table."""

    @property
    def description(self) -> str:
        return f"the embedding {self.variable.owner!r} is sharded"


class TableVariable(keras.Variable):
    """The weights of an embedding whose rows are cut between the workers.

    Its shape is that of the full table. What reads it is refused, but for lookups, optimizers and what is saved: no
    worker has all of it.

    Args:
        initializer: Of Keras.
        cut: Between rows; how the workers share the table.
        worker: This one.
        owner: The name of its layer, for errors.
        **options: See `keras.Variable`.
    """

    def __init__(self, initializer: Any, cut: Cut, worker: int, owner: str, **options: Any) -> None:
        self.cut, self.worker, self.owner = cut, worker, owner
        super().__init__(initializer, shape=cut.shape, **options)

    @property
    def shard(self) -> TableShard:
        """The shard: what this worker stores of it."""
        return TableShard(self, self.cut, self.worker)

    @property
    def first_row(self) -> int:
        """The first of this worker's rows."""
        return self.cut.span(self.worker)[0] // self.cut.row_size

    @property
    def rows(self) -> tf.Variable:
        """This worker's rows, `[rows of this worker, dim]`."""
        return self._value

    own_part = rows
    """By this name code asks for it that knows nothing of tables."""

    @property
    def handle(self) -> tf.Tensor:
        """Of this worker's rows, for tapes."""
        return self._value.handle

    @property
    def value(self) -> Any:
        """The full table, where somebody has put it together; see `full_state`.

        Raises:
            UnsupportedError: Nobody has.
        """
        if self._value is None or not isinstance(self._value, tf.Variable):
            return super().value
        raise UnsupportedError(
            "The table of an embedding is sharded, and the program reads it outside of a lookup, as output layers that "
            f"are tied to an embedding do. Received: {self.owner!r}, of whose {self.cut.shape[0]} rows this worker has "
            f"{self.cut.shard_shape(self.worker)[0]}. Call the layer on ids, read it with layer.get_weights() on every "
            "worker, or train it whole: keras.layers.Embedding, --shard-embeddings with more rows than it has."
        )

    def numpy(self) -> NDArray:
        """The full table, put together in host memory; all workers call this together."""
        if not isinstance(self._value, tf.Variable):
            return np.asarray(self._value)
        return self.shard.full()

    def __array__(self, dtype: Any = None) -> NDArray:
        return np.asarray(self.numpy(), dtype=dtype)

    def _initialize_with_initializer(self, initializer: Any) -> None:
        def initialize() -> None:
            with tf.init_scope(), local_variables():
                self._initialize(initial_rows(initializer, self.cut, self.worker, self._dtype, self.path))

        outside_of_replicas(initialize)

    def assign(self, value: Any) -> tf.Tensor:
        """Takes this worker's rows of a full table, of which nothing else is read where it is in a file.

        Args:
            value: An array, a tensor or a dataset of a file, of the shape of the table.

        Returns:
            This worker's rows.

        Raises:
            ValueError: The shape is another one.
        """
        if tuple(getattr(value, "shape", np.shape(value))) != self.cut.shape:
            raise ValueError(
                f"The table {self.path} of the sharded embedding {self.owner!r} has shape {self.cut.shape}. Received: "
                f"a value of shape {tuple(getattr(value, 'shape', np.shape(value)))}."
            )
        first, last = (bound // self.cut.row_size for bound in self.cut.span(self.worker))
        rows = keras.ops.convert_to_tensor(value[first:last], dtype=self._dtype)
        self._value.assign(rows)
        return rows


def tables_of(model: Any) -> list[TableVariable]:
    """The tables of a model that are sharded, each once, in the order of its weights."""
    return [variable for variable in getattr(model, "weights", ()) if isinstance(variable, TableVariable)]


def row_view(table: TableVariable) -> keras.Variable:
    """A variable with the shape of this worker's rows, for the optimizer; it has the table's own memory."""
    view = keras.Variable("zeros", shape=(0, 0), dtype=table._dtype, trainable=True, name=table.name)
    view._path, view._shape, view._value = table.path, tuple(table.rows.shape), table.rows
    view.constraint = table.constraint
    return view
