"""A batch with a few rows for each replica, and an uneven number of them, in the place of a first batch."""

from __future__ import annotations

import math
from typing import Any

import tensorflow as tf

from tfdist.keras_repairs.base import batch_rows
from tfdist.keras_repairs.base.replica_step import ReplicaStep, replica_step
from tfdist.keras_repairs.base.step_records import BatchShare
from tfdist.keras_repairs.coupling.global_batch import rows_of_all_replicas
from tfdist.keras_repairs.inputs.data_adapters import given
from tfdist.keras_repairs.inputs.epoch_iterator import FetchedBatch
from tfdist.order.epoch_order import bounds
from tfdist.runtime.batches.replica_batches import GlobalBatch, ReplicaBatch, extent_of
from tfdist.runtime.collectives.decisions import all_reduce
from tfdist.runtime.workers import local_replicas

ROWS_EACH = 2
"""Rows of each replica; the first one has more, so that a mean over replicas is none over samples."""


def few_rows_of(batch: Any, strategy: tf.distribute.Strategy, *, only_one: bool = False) -> Any:
    """`batch` with the first few rows of each replica; the whole batch where its shape is fixed, or it is small.

    Args:
        batch: A `GlobalBatch`, or a `FetchedBatch` of `ReplicaBatch`es.
        strategy: Of several replicas.
        only_one: Whether it is to be a single row, of which the other replicas have none.
    """
    replicas = strategy.num_replicas_in_sync
    if not is_of_any_size(batch):
        return batch
    pieces = strategy.experimental_local_results(batch.values)
    total = int(pieces[0].total)
    held = [stop - start for start, stop in (bounds(total, replicas, index) for index in range(replicas))]
    others = [0 if only_one else min(rows, ROWS_EACH) for rows in held[1:]]
    # A prime number: what makes pairs or triplets of rows fails on one device already, and not on some replicas alone.
    kept = [1 if only_one else _prime_from(sum(others) + ROWS_EACH + 1) - sum(others), *others]
    # Shares of the workers' own are as large as they are.
    own_rows = [held[index] for index in local_replicas(strategy)]
    is_even = [int(piece.samples) for piece in pieces] == own_rows
    share_rows = is_even and all(_share_rows(given(piece.data)) for piece in pieces)
    if not all_reduce(float(share_rows), "min", strategy) or kept[0] > held[0] or sum(kept) == total:
        return batch
    own = [_few_of(p, i, kept) for p, i in zip(pieces, local_replicas(strategy), strict=True)]
    values = _distributed(own, strategy) if _is_distributed(batch.values) else own[0]
    return FetchedBatch(values, batch.spec)


def may_leave_replicas_out(batch: Any, strategy: tf.distribute.Strategy) -> bool:
    """Returns whether there may be batches like it with fewer rows than replicas, which the same trace serves."""
    if not is_of_any_size(batch):
        return False
    pieces = strategy.experimental_local_results(batch.values)
    return all(isinstance(piece.whole, tuple) and not isinstance(piece.counting, tuple) for piece in pieces)


def rows_of_all(batch: Any, strategy: tf.distribute.Strategy) -> Any:
    """The data of a batch with the rows of all replicas, as one device has them; all workers call this together."""
    if isinstance(batch, GlobalBatch):
        return batch.data

    def on_replica(piece: ReplicaBatch) -> Any:
        data = given(piece.data)
        if not isinstance(piece.whole, tuple):
            return data
        rows = tf.maximum(piece.samples, 1)
        share = BatchShare(piece.samples, rows, piece.first, piece.total, piece.samples, int(rows))
        with replica_step(ReplicaStep(share)):
            return rows_of_all_replicas(data)

    run = tf.autograph.experimental.do_not_convert(on_replica)
    outputs = strategy.run(run, args=(batch.values,))
    return tf.nest.map_structure(lambda leaf: strategy.experimental_local_results(leaf)[0], outputs)


def _prime_from(number: int) -> int:
    """The least prime number that is not below `number`, which is at least 2."""
    while any(number % factor == 0 for factor in range(2, math.isqrt(number) + 1)):
        number += 1
    return number


def _few_of(piece: ReplicaBatch, index: int, kept: list[int]) -> ReplicaBatch:
    total, rows = sum(kept), kept[index]
    return ReplicaBatch(
        batch_rows.cut(piece.data, 0, max(rows, 1)),
        tf.constant(rows, tf.int64),
        tf.constant(sum(kept[:index]), tf.int64),
        tf.constant(total, tf.int64),
        () if isinstance(piece.counting, tuple) else tf.constant(sum(map(bool, kept)), tf.int64),
        piece.largest,
        () if isinstance(piece.extent, tuple) else extent_of(total),
    )


def _distributed(pieces: list[ReplicaBatch], strategy: tf.distribute.Strategy) -> Any:
    first = local_replicas(strategy).start
    return strategy.experimental_distribute_values_from_function(
        lambda context: pieces[context.replica_id_in_sync_group - first]
    )


def _is_distributed(values: Any) -> bool:
    """Returns whether a worker has a value for each of its replicas; one with a single replica may have that one's
    own."""
    return any(isinstance(leaf, tf.distribute.DistributedValues) for leaf in tf.nest.flatten(values))


def is_of_any_size(batch: Any) -> bool:
    """Returns whether batches like it may have any number of rows, so that one trace serves for all of them."""
    if not isinstance(batch, FetchedBatch):
        return False

    def is_open(leaf: Any) -> bool:
        leaf = getattr(leaf, "_value_specs", (leaf,))[0]
        shape = getattr(leaf, "shape", None)
        return shape is None or shape.rank in (None, 0) or shape[0] is None

    spec = batch.spec
    sized = (spec.data, spec.extent) if isinstance(spec, ReplicaBatch) else spec
    return all(is_open(leaf) for leaf in tf.nest.flatten(sized))


def _share_rows(data: Any) -> bool:
    rows = {int(batch_rows.rows(leaf)) for leaf in tf.nest.flatten(data) if batch_rows.has_rows(leaf)}
    return len(rows) == 1
