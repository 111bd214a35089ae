"""Sparse gradients of a table, on their way to the workers that have the rows."""

from __future__ import annotations

import tensorflow as tf

from tfdist.keras_repairs.sharded_embeddings.row_lookup import by_owner, is_row
from tfdist.keras_repairs.sharded_embeddings.row_penalties import RowPenalty, weight_of_penalty
from tfdist.keras_repairs.sharded_embeddings.table_variable import TableVariable
from tfdist.runtime.strategy_settings import settings_of
from tfdist.runtime.transport.row_exchange import exchange_rows
from tfdist.runtime.transport.shard_collectives import sum_over_workers


def slices_for_owner(
    gradient: tf.IndexedSlices, table: TableVariable, *, is_linear: bool
) -> tf.IndexedSlices | tf.Tensor:
    """The slices of all workers' gradients that are of this worker's rows; all workers call it.

    Keras's optimizers square and clip slice by slice: a row that comes twice in a batch has two slices on one device,
    and has them here, in the order of the workers.

    Args:
        gradient: This worker's, by the numbers of the table's rows.
        table: Whose.
        is_linear: Whether nothing but sums is computed of slices, so that those of one row can travel as one.

    Returns:
        Slices of `[rows of this worker, dim]`, by the numbers of its own rows; dense where a regularizer has a gradient
        in every row, as on one device.
    """
    values, ids = tf.convert_to_tensor(gradient.values), tf.cast(gradient.indices, tf.int64)
    if isinstance(table.regularizer, RowPenalty):
        weight, values, ids = weight_of_penalty(values, ids)
        slices = _exchanged(values, ids, table, is_linear=True)
        return tf.convert_to_tensor(slices) + sum_over_workers(weight) * table.regularizer.gradient(table)
    return _exchanged(values, ids, table, is_linear=is_linear)


def own_slices(gradient: tf.IndexedSlices, table: TableVariable) -> tf.IndexedSlices | tf.Tensor:
    """The slices of this worker's rows, of a gradient that all workers have in full; see `slices_for_owner`."""
    values, ids = tf.convert_to_tensor(gradient.values), tf.cast(gradient.indices, tf.int64)
    weight = None
    if isinstance(table.regularizer, RowPenalty):
        weight, values, ids = weight_of_penalty(values, ids)
    rows, dim = table.cut.shard_shape(table.worker)
    ids = ids - table.first_row
    is_own = tf.logical_and(ids >= 0, ids < rows)
    slices = tf.IndexedSlices(
        tf.boolean_mask(values, is_own), tf.boolean_mask(ids, is_own), tf.constant([rows, dim], tf.int64)
    )
    if weight is None:
        return slices
    return tf.convert_to_tensor(slices) + weight * table.regularizer.gradient(table)


def _exchanged(values: tf.Tensor, ids: tf.Tensor, table: TableVariable, *, is_linear: bool) -> tf.IndexedSlices:
    if settings_of(tf.distribute.get_strategy()).on_gpus:
        is_there = is_row(table, ids)
        values, ids = tf.boolean_mask(values, is_there), tf.boolean_mask(ids, is_there)
    if is_linear:
        ids, places = tf.unique(ids)
        values = tf.math.unsorted_segment_sum(values, places, tf.size(ids))
    order = tf.argsort(ids, stable=True)
    ids, counts = by_owner(tf.gather(ids, order), table)
    ids, _ = exchange_rows(ids[:, tf.newaxis], counts)
    values, _ = exchange_rows(tf.gather(values, order), counts)
    shape = tf.constant(table.cut.shard_shape(table.worker), tf.int64)
    return tf.IndexedSlices(values, ids[:, 0] - table.first_row, shape)
