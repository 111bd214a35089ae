"""Exchange of rows between workers, of which each gives any number to each other one (all-to-all of uneven parts)."""

from __future__ import annotations

import math

import tensorflow as tf

from tfdist.errors import UsageError
from tfdist.runtime.collectives.wire.tensorflow_engine import TensorFlowEngine
from tfdist.runtime.strategy_settings import settings_of
from tfdist.runtime.transport.worker_lane import channel_of
from tfdist.runtime.workers import worker_count

_CARRIED = (tf.float64, tf.float32, tf.float16, tf.int64, tf.int32)
"""The dtypes that TensorFlow's all-to-all carries; other floats of 16 bits go as float32, which has their values."""


def exchange_rows(rows: tf.Tensor, counts: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Gives each worker the rows that are for it. All workers call it, in a function or outside.

    Where workers share memory they copy what is for them. Elsewhere parts travel by TensorFlow's all-to-all, all as
    long as the longest of them.

    Args:
        rows: Those for worker 0, for worker 1 and so on; of one width and dtype on all workers.
        counts: How many are for each worker, int64 `[workers]`.

    Returns:
        The rows for this worker, in the order of the workers that gave them, and how many each of them gave, int64.
    """
    strategy = tf.distribute.get_strategy()
    settings = settings_of(strategy)
    if worker_count(strategy) != counts.shape[0]:
        raise UsageError(
            "Rows of sharded embeddings are exchanged under the strategy of the run. Received: a call under another "
            "one, such as in a thread that the program has started, or in a function of a tf.data pipeline. Call the "
            "model in the main thread."
        )
    width = [int(size) for size in rows.shape[1:]]
    if settings.memory is not None:
        flat, sizes = settings.memory.of_functions.deal_unevenly(
            tf.reshape(rows, [-1]), counts * math.prod(width)
        )
        return tf.reshape(flat, [-1, *width]), sizes // math.prod(width)
    carried = rows.dtype if rows.dtype in _CARRIED else tf.float32
    with tf.device("CPU:0"):
        received, sizes = _by_collectives(tf.cast(rows, carried), tf.identity(counts), width)
        return tf.cast(received, rows.dtype), sizes


def _by_collectives(rows: tf.Tensor, counts: tf.Tensor, width: list[int]) -> tuple[tf.Tensor, tf.Tensor]:
    workers = int(counts.shape[0])
    engine = TensorFlowEngine()
    channel = channel_of("row counts", counts.dtype, workers)
    table = tf.reshape(engine.all_gather(counts, channel), [workers, workers])
    longest = tf.maximum(tf.reduce_max(table), 1)
    padded = tf.RaggedTensor.from_row_lengths(rows, counts).to_tensor(shape=[workers, None, *width])
    missing = longest - tf.cast(tf.shape(padded)[1], tf.int64)
    padded = tf.pad(padded, [[0, 0], [0, missing], *([0, 0] for _ in width)])
    flat = tf.reshape(padded, [-1])
    channel = channel_of("rows", flat.dtype, workers * longest * math.prod(width))
    received = tf.reshape(engine.all_to_all(flat, channel), [workers, -1, *width])
    came = table[:, channel.place]
    return tf.RaggedTensor.from_tensor(received, lengths=came).flat_values, came
