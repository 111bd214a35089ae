"""Groups of batches: the records of several batches are read in one call, and cut by TensorFlow.

Calling Python, and handing over an object for each record, takes longer than reading small records. So a call reads
some MB of them into one block, which TensorFlow cuts into strings without Python's lock.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from tfdist.data.ops.prefetch import ReadLimits
from tfdist.data.ops.sample_batches import PaddedBatches, by_python
from tfdist.data.ops.sample_indices import SampleIndices
from tfdist.data.random_access.record_reader import RecordBlock


def read_groups(
    numbers: SampleIndices, read: Callable[[NDArray[np.int64]], RecordBlock], pace: ReadLimits
) -> PaddedBatches:
    """Reads records, batch by batch, by a Python function that returns many of them in one block.

    Args:
        numbers: The records of each batch.
        read: From the numbers of records, int64 [k], to a block of them.
        pace: How `read` may be called.

    Returns:
        Batches of strings.
    """
    width = max(numbers.largest, 1)
    each = tf.TensorSpec([None], tf.int64)
    load = by_python(read, [tf.TensorSpec([], tf.string), each, each])

    def load_group(rows: tf.Tensor, counts: tf.Tensor) -> tuple[tf.Tensor, tuple[tf.Tensor]]:
        records = tf.strings.substr(*load(tf.reshape(rows, [-1])))
        return counts, (tf.reshape(records, [-1, width]),)

    def cut(*group: Any) -> tf.data.Dataset:
        return tf.data.Dataset.from_tensor_slices(group)

    together = max(1, pace.records // width)
    groups = numbers.filled().batch(together).map(load_group, num_parallel_calls=pace.calls)
    return PaddedBatches(groups.flat_map(cut), width)
