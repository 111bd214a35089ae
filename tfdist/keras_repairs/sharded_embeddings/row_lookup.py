"""Vectors of rows that other workers have, with their gradients as sparse ones.

A worker asks for each row once: the sorted ids go to the owners, and the vectors come back, both by an all-to-all of
parts of any size. The gradient of a lookup is that of a lookup in the full table, by the numbers of its rows; the
optimizer's step sends it to the owners (`slice_exchange`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from tfdist.keras_repairs.base.replica_step import is_tried_out, note_gathering
from tfdist.keras_repairs.base.size_origins import sized_as
from tfdist.keras_repairs.sharded_embeddings.table_variable import TableVariable
from tfdist.runtime.strategy_settings import settings_of
from tfdist.runtime.transport.row_exchange import exchange_rows


def look_up(table: TableVariable, ids: Any) -> Any:
    """The rows of a table; all workers call it, with any number of ids each.

    Args:
        table: Of `[rows, dim]`.
        ids: Integers of any shape, dense, ragged or sparse, from `-rows` to `rows - 1`; negative ones count from the
            end. As with Keras, others fail on a CPU and give zeros on a GPU; where a sparse tensor has none, row 0.

    Returns:
        `[*ids.shape, dim]` of the table's dtype; ragged for ragged ids.

    Raises:
        tf.errors.InvalidArgumentError: There is no such row, on a CPU.
    """
    if isinstance(ids, tf.RaggedTensor):
        return ids.with_flat_values(look_up(table, ids.flat_values))
    if isinstance(ids, tf.SparseTensor):
        ids = tf.sparse.to_dense(ids)
    ids = tf.convert_to_tensor(ids)
    flat = _checked(tf.reshape(tf.cast(ids, tf.int64), [-1]), table)
    if is_tried_out():
        # No other worker takes part; one row does as well as another where rows are what is made up.
        vectors = tf.gather(table.rows, flat % int(table.rows.shape[0]))
    else:
        vectors = _connected(table, flat, tf.stop_gradient(_fetched(table, flat)))
    dim = table.cut.row_size
    found = tf.reshape(vectors, tf.concat([tf.shape(ids), [dim]], 0))
    # Whatever other workers send, each id has its row.
    return sized_as(tf.ensure_shape(found, [*ids.shape, dim]), ids)


def no_vectors(ids: Any, dim: int) -> Any:
    """Zeros of the shape that `look_up` returns for ids."""
    if isinstance(ids, tf.RaggedTensor):
        return ids.with_flat_values(no_vectors(ids.flat_values, dim))
    if isinstance(ids, tf.SparseTensor):
        ids = tf.sparse.to_dense(ids)
    return tf.ensure_shape(tf.zeros(tf.concat([tf.shape(ids), [dim]], 0)), [*ids.shape, dim])


def is_row(table: TableVariable, ids: tf.Tensor) -> tf.Tensor:
    """Returns which numbers are those of rows."""
    return tf.logical_and(ids >= 0, ids < table.cut.shape[0])


def _checked(ids: tf.Tensor, table: TableVariable) -> tf.Tensor:
    rows = table.cut.shape[0]
    ids = tf.where(ids < 0, ids + rows, ids)
    if settings_of(tf.distribute.get_strategy()).on_gpus:
        return ids
    is_wrong = tf.logical_not(is_row(table, ids))
    said = [f"The embedding {table.owner!r} has the rows 0 to {rows - 1}. Received ids beyond them:"]
    check = tf.debugging.Assert(tf.logical_not(tf.reduce_any(is_wrong)), [*said, tf.boolean_mask(ids, is_wrong)])
    with tf.control_dependencies([] if check is None else [check]):
        return tf.identity(ids)


def _fetched(table: TableVariable, ids: tf.Tensor) -> tf.Tensor:
    """The vectors of ids, `[ids, dim]`; zeros where there is no such row."""
    note_gathering()
    wanted, places = tf.unique(ids)
    order = tf.argsort(wanted)
    wanted = tf.gather(wanted, order)
    is_there = is_row(table, wanted)
    asked, counts = by_owner(tf.boolean_mask(wanted, is_there), table)
    asked, asking = exchange_rows(asked[:, tf.newaxis], counts)
    vectors, _ = exchange_rows(tf.gather(table.rows, asked[:, 0] - table.first_row), asking)
    at = tf.cast(tf.cumsum(tf.cast(is_there, tf.int64), exclusive=True), tf.int64)
    padded = tf.concat([vectors, tf.zeros([1, table.cut.row_size], vectors.dtype)], 0)
    none = tf.cast(tf.shape(vectors)[0], tf.int64)
    of_wanted = tf.gather(tf.where(is_there, at, none), tf.math.invert_permutation(order))
    return tf.gather(padded, tf.gather(of_wanted, places))


def by_owner(ids: tf.Tensor, table: TableVariable) -> tuple[tf.Tensor, tf.Tensor]:
    """Ascending numbers of rows, and how many of them each worker has, int64 `[workers]`."""
    bounds = tf.constant([bound // table.cut.row_size for bound in table.cut.bounds], tf.int64)
    places = tf.searchsorted(ids, bounds, out_type=tf.int64)
    return ids, places[1:] - places[:-1]


def _connected(table: TableVariable, ids: tf.Tensor, vectors: tf.Tensor) -> tf.Tensor:
    """`vectors`, with the gradient of a lookup in the full table for tapes that watch it."""

    @tf.custom_gradient
    def forward(handle: tf.Tensor) -> tuple[tf.Tensor, Callable[[tf.Tensor], tf.IndexedSlices]]:
        def gradient(upstream: tf.Tensor) -> tf.IndexedSlices:
            return tf.IndexedSlices(upstream, ids, tf.constant(table.cut.shape, tf.int64))

        return tf.stop_gradient(vectors), gradient

    # A read of no rows, by which tapes learn of a variable.
    tf.gather(table.rows, tf.zeros([0], tf.int64))
    return forward(table.handle)
