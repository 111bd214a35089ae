"""Predictions as `tf.train.Example`s: one TFRecord file, or a folder of them, which a config's `features` describe."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from tfdist.data.tools.shard_manifest import config_text
from tfdist.data.tools.shard_writer import encode
from tfdist.errors import UsageError
from tfdist.training.inference.outputs.kept_outputs import KeptFile
from tfdist.training.inference.outputs.output_formats import INDEX, Blocks, OutputColumn


def check(columns: Sequence[OutputColumn]) -> None:
    """See `OutputFormat.check`."""
    for column in columns:
        if column.dtype == "uint64" or 0 in column.shape:
            raise UsageError(
                f"A tf.train.Example has float32, int64 and texts, at least one value each. Received: the output "
                f"{column}. Choose another --format, such as npz."
            )


def write(path: Path, columns: Sequence[OutputColumn], samples: int, blocks: Blocks) -> None:
    """See `OutputFormat.write`."""
    try:
        # As bytes: TensorFlow takes a str for UTF-8, whatever the locale of this process is.
        with tf.io.TFRecordWriter(os.fsencode(path)) as writer:
            for record in records(columns, blocks):
                writer.write(record)
    except tf.errors.OpError as error:
        raise OSError(error.message) from error


def records(columns: Sequence[OutputColumn], blocks: Blocks) -> Iterator[bytes]:
    """The record of each sample, with its number."""
    names = [column.name for column in columns]
    for start, arrays in blocks():
        parts = [_writable(array) for array in arrays]
        for row, values in enumerate(zip(*parts, strict=True)):
            yield encode({INDEX: start + row, **dict(zip(names, values, strict=True))})


def notes(path: Path, columns: Sequence[OutputColumn]) -> list[str]:
    """See `OutputFormat.notes`: the section of a config that reads the file, whose label is the sample's number."""
    features = {INDEX: {"dtype": "int64"}} | {column.name: _feature(column) for column in columns}
    section: dict[str, Any] = {"format": "tfrecord", "files": str(path), "features": features, "label": INDEX}
    lossy = ", ".join(column.name for column in columns if column.dtype == "float64")
    return [
        *([f"float64 is float32 in a TFRecord file: {lossy}"] if lossy else []),
        f"In a config:\n\n{config_text(section)}",
    ]


def _writable(array: NDArray) -> NDArray:
    if array.dtype.hasobject:
        return array
    return array.astype(np.float32 if array.dtype.kind == "f" else np.int64)


def _feature(column: OutputColumn) -> dict[str, Any]:
    kind = "string" if column.is_text else "float32" if column.dtype.startswith("float") else "int64"
    return {"dtype": kind} | ({"shape": list(column.shape)} if column.shape else {})


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
