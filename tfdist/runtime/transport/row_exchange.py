"""Exchange of rows between workers, of which each gives any number to each other one (all-to-all of uneven parts)."""

from __future__ import annotations

import math

import tensorflow as tf

from tfdist.errors import UsageError
from tfdist.runtime.collectives.wire.engines import TensorFlowEngine
from tfdist.runtime.collectives.wire.wire_dtypes import from_gathered, to_gathered
from tfdist.runtime.strategy_settings import settings_of
from tfdist.runtime.transport import shard_groups
from tfdist.runtime.transport.worker_lane import channel_of
from tfdist.runtime.workers import worker_count


def exchange_rows(
    rows: tf.Tensor, counts: tf.Tensor, among: shard_groups.Workers | None = None
) -> tuple[tf.Tensor, tf.Tensor]:
    """Gives each worker the rows that are for it. All of them call it, in a function or outside.

    Where workers share memory they copy what is for them. Elsewhere parts travel by TensorFlow's all-to-all, all as
    long as the longest of them.

    Args:
        rows: Those for the first worker, for the second and so on; of one width and dtype on all workers.
        counts: How many are for each worker, int64 `[workers]`.
        among: The workers, ascending, this one among them; None for all.

    Returns:
        The rows for this worker, in the order of the workers that gave them, and how many each of them gave, int64.
    """
    strategy = tf.distribute.get_strategy()
    settings = settings_of(strategy)
    if among is None and worker_count(strategy) != counts.shape[0]:
        raise UsageError(
            "Rows of sharded embeddings are exchanged under the strategy of the run. Received: a call under another "
            "one, such as in a thread that the program has started, or in a function of a tf.data pipeline. Call the "
            "model in the main thread."
        )
    width = [int(size) for size in rows.shape[1:]]
    memory = shard_groups.memory_among(among, settings)
    if memory is not None:
        flat, sizes = memory.deal_unevenly(tf.reshape(rows, [-1]), counts * math.prod(width))
        return tf.reshape(flat, [-1, *width]), sizes // math.prod(width)
    with tf.device("CPU:0"):
        sent = to_gathered(rows)
        width = [int(size) for size in sent.shape[1:]]
        received, sizes = _by_collectives(sent, tf.identity(counts), width, among)
        return from_gathered(received, rows.dtype), sizes


def gather_rows(rows: tf.Tensor, among: shard_groups.Workers | None = None) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the rows of all workers, in the order of the workers, and how many each of them has, int64 `[workers]`.

    Args:
        rows: Of this worker, any number; `[rows, ...]` with the same other sizes and dtype on all workers.
        among: As in `exchange_rows`.
    """
    workers, shape = workers_of(among), tf.shape(rows, tf.int64)
    flat = tf.reshape(rows, [-1])
    memory = shard_groups.memory_among(among, settings_of(tf.distribute.get_strategy()))
    if memory is not None:
        flat, counts = memory.gather([flat, shape[:1]])
    else:
        sent = to_gathered(flat)
        others = tf.reduce_prod(shape[1:]) * math.prod(sent.shape[1:])
        flat, counts = _gathered_by_collectives(tf.reshape(sent, [-1]), shape[:1], others, workers, among)
        flat = from_gathered(tf.reshape(flat, [-1, *sent.shape[1:]]), rows.dtype)
    counts = tf.ensure_shape(counts, [workers])
    gathered = tf.reshape(flat, tf.concat([tf.reduce_sum(counts)[tf.newaxis], shape[1:]], 0))
    return tf.ensure_shape(gathered, [None, *rows.shape[1:]]), counts


def workers_of(among: shard_groups.Workers | None) -> int:
    """How many workers take part."""
    return worker_count(tf.distribute.get_strategy()) if among is None else len(among)


def _by_collectives(
    rows: tf.Tensor, counts: tf.Tensor, width: list[int], among: shard_groups.Workers | None
) -> tuple[tf.Tensor, tf.Tensor]:
    workers = int(counts.shape[0])
    engine = TensorFlowEngine()
    channel = channel_of("row counts", counts.dtype, workers, among)
    table = tf.reshape(engine.all_gather(counts, channel), [workers, workers])
    longest = tf.maximum(tf.reduce_max(table), 1)
    padded = tf.RaggedTensor.from_row_lengths(rows, counts).to_tensor(shape=[workers, None, *width])
    missing = longest - tf.cast(tf.shape(padded)[1], tf.int64)
    padded = tf.pad(padded, [[0, 0], [0, missing], *([0, 0] for _ in width)])
    flat = tf.reshape(padded, [-1])
    channel = channel_of("rows", flat.dtype, workers * longest * math.prod(width), among)
    received = tf.reshape(engine.all_to_all(flat, channel), [workers, -1, *width])
    came = table[:, channel.place]
    return tf.RaggedTensor.from_tensor(received, lengths=came).flat_values, came


def _gathered_by_collectives(
    flat: tf.Tensor, rows: tf.Tensor, width: tf.Tensor, workers: int, among: shard_groups.Workers | None
) -> tuple[tf.Tensor, tf.Tensor]:
    """The elements of the rows of all workers, and the rows of each: a row of a table for each worker, all as long."""
    engine = TensorFlowEngine()
    counts = engine.all_gather(rows, channel_of("counts of gathered rows", tf.int64, 1, among))
    sizes = counts * width
    longest = tf.maximum(tf.reduce_max(sizes), 1)
    padded = tf.pad(flat, [[0, longest - tf.size(flat, tf.int64)]])
    table = engine.all_gather(padded, channel_of("gathered rows", flat.dtype, longest, among))
    ragged = tf.RaggedTensor.from_tensor(tf.reshape(table, [workers, -1]), lengths=sizes)
    return ragged.flat_values, counts
