"""Records of several batches read in one go, and cut by TensorFlow.

To call Python, and to hand over an object for each record, takes longer than to read small records. So a call reads
some MB of them into one block, of which TensorFlow makes strings without Python's lock.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from tfdist.data.buffering import Pace
from tfdist.data.numbering import SampleNumbers
from tfdist.data.reading import Filled, by_python


def read_groups(
    numbers: SampleNumbers,
    read: Callable[..., Any],
    beside: Sequence[tf.DType] = (),
    *,
    pace: Pace,
) -> Filled:
    """Reads records, batch by batch, by a Python function that returns many of them in one block.

    Args:
        numbers: Which records.
        read: From an int64 array [k] to the parts of a `record_reader.Block`, and what else there is, each [k].
        beside: The types of the latter.
        pace: How it may be called.

    Returns:
        Batches of the records, strings, and of what there is beside.
    """
    width = max(numbers.largest, 1)
    each = [tf.TensorSpec([None], dtype) for dtype in (tf.int64, tf.int64, *beside)]
    load = by_python(read, [tf.TensorSpec([], tf.string), *each])

    def load_group(rows: tf.Tensor, counts: tf.Tensor) -> tuple[tf.Tensor, tuple[tf.Tensor, ...]]:
        data, starts, sizes, *more = load(tf.reshape(rows, [-1]))
        records = tf.strings.substr(data, starts, sizes)
        return counts, tuple(tf.reshape(column, [-1, width]) for column in (records, *more))

    def cut(*columns: Any) -> tf.data.Dataset:
        return tf.data.Dataset.from_tensor_slices(columns)

    together = max(1, pace.records // width)
    groups = numbers.filled().batch(together).map(load_group, num_parallel_calls=pace.calls)
    return Filled(groups.flat_map(cut), width)
