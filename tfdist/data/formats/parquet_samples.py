"""Rows of Parquet files as batches of tensors."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from tfdist.data.formats.reader_samples import ReaderSamples
from tfdist.data.ops.sample_indices import SampleIndices
from tfdist.data.random_access.parquet_reader import ParquetReader
from tfdist.errors import DataError
from tfdist.order.sequential_order import Lanes


class ParquetSamples(ReaderSamples):
    """Rows: `x` is a dict of the columns, or the column where there is one, and `y` the label.

    Args:
        reader: The files.
        stack: Whether `x` is one float32 vector instead: the values of all its columns, in their order.

    Raises:
        DataError: There is no column besides the label, or one that is to be stacked is a text.
    """

    def __init__(self, reader: ParquetReader, *, stack: bool = False) -> None:
        super().__init__(reader)
        self._names = [column.name for column in reader.columns[:-1]]
        self._lanes, self._stack = reader.lanes, stack
        if not self._names:
            raise DataError(f"{reader.paths[0]} has no column besides the label. Expected one or more for x.")
        texts = [column.name for column in reader.columns[:-1] if column.spec.dtype == "string"]
        if stack and texts:
            raise DataError(
                f"Column {texts[0]} of {reader.paths[0]} holds texts or bytes, and stack makes one vector of numbers. "
                "Leave it out by columns, or leave stack out, which makes a dict of the columns."
            )

    @property
    def lanes(self) -> Lanes:
        """See `SequentialSource.lanes`."""
        return self._lanes

    def batches(self, numbers: SampleIndices) -> tf.data.Dataset:
        """See `SampleSource.batches`."""
        return super().batches(numbers).map(self._packed)

    def _packed(self, *columns: tf.Tensor) -> tuple[Any, tf.Tensor]:
        *features, label = columns
        if self._stack:
            flat = [tf.reshape(tf.cast(each, tf.float32), [tf.shape(each)[0], _width(each)]) for each in features]
            return tf.concat(flat, axis=1), label
        return (features[0] if len(features) == 1 else dict(zip(self._names, features, strict=True))), label


def _width(column: tf.Tensor) -> int:
    return int(column.shape[1:].num_elements() or 1)
