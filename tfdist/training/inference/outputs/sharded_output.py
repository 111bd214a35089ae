"""Predictions as a folder of TFRecord files, which a distillation and any pipeline of tf.data read."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import tensorflow as tf

from tfdist.training.inference.outputs.kept_outputs import KeptFile
from tfdist.training.inference.outputs.output_formats import Blocks
from tfdist.training.inference.outputs.tfrecord_output import records
from tfdist.training.model_outputs.output_columns import OutputColumn

SHARD_BYTES = 128 << 20
"""Bytes of a file, about, where nothing says how many files there are."""

_TEXT_BYTES = 64
_RECORD_BYTES = 64
"""Of a record without its values, about."""


def shard_count(columns: Sequence[OutputColumn], samples: int) -> int:
    """Returns how many files predictions become where a user does not say it."""
    values = sum(
        column.size * (_TEXT_BYTES if column.is_text else np.dtype(column.dtype).itemsize) for column in columns
    )
    return max(1, min(samples, -(-samples * (values + _RECORD_BYTES) // SHARD_BYTES)))


def write_shards(
    folder: Path, columns: Sequence[OutputColumn], samples: int, blocks: Blocks, shards: int
) -> tuple[KeptFile, ...]:
    """Writes all predictions into files in a folder; the same bytes however they lie in blocks.

    Args:
        folder: Exists, and is empty.
        columns: The outputs.
        samples: How many there are of all blocks; at least as many as shards.
        blocks: The predictions.
        shards: How many files.

    Raises:
        OSError: A file cannot be written.
    """
    ends = [samples * (number + 1) // shards for number in range(shards)]
    encoded = records(columns, blocks)
    made, start = [], 0
    for number, end in enumerate(ends):
        path = folder / f"outputs-{number:05}-of-{shards:05}.tfrecord"
        _write(path, encoded, end - start)
        made.append(KeptFile(path.name, end - start, path.stat().st_size))
        start = end
    return tuple(made)


def _write(path: Path, encoded: Iterator[bytes], count: int) -> None:
    try:
        # As bytes: TensorFlow takes a str for UTF-8, whatever the locale of this process is.
        with tf.io.TFRecordWriter(os.fsencode(path)) as writer:
            for _ in range(count):
                writer.write(next(encoded))
    except tf.errors.OpError as error:
        raise OSError(error.message) from error
