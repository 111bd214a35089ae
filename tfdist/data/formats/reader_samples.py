"""Samples that a reader returns as arrays, as batches of tensors: any, rows of Parquet files, and lines of text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from tfdist.data.fingerprints import Fingerprint, of_files
from tfdist.data.ops.record_parser import RecordParser
from tfdist.data.ops.sample_batches import LoadSamples, by_python, parallel_parses, read_batches
from tfdist.data.ops.sample_indices import SampleIndices
from tfdist.data.random_access.parquet_reader import ParquetReader
from tfdist.data.sample_source import SampleReader
from tfdist.errors import DataError
from tfdist.order.sequential_order import Lanes

if TYPE_CHECKING:
    from tfdist.data.random_access.line_reader import TextReader


class ReaderSamples:
    """The samples of a `SampleReader`: tuples such as `(x, y)`."""

    def __init__(self, reader: SampleReader) -> None:
        self._reader = reader

    def __len__(self) -> int:
        return len(self._reader)

    def batches(self, numbers: SampleIndices) -> tf.data.Dataset:
        """See `SampleSource.batches`."""
        return read_batches(numbers.batches(), self._load())

    def name(self, number: int) -> str:
        """See `SampleSource.name`."""
        return self._reader.name(number)

    def fingerprint(self) -> Fingerprint:
        """See `SampleSource.fingerprint`."""
        return of_files(self._reader.paths, len(self))

    def _load(self) -> LoadSamples:
        specs = [tf.TensorSpec([None, *spec.shape], spec.dtype) for spec in self._reader.specs]
        return by_python(self._read, specs)

    def _read(self, numbers: NDArray[np.int64]) -> Sequence[NDArray]:
        return self._reader.read(numbers)


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


class VectorizedTextSamples(ReaderSamples):
    """Labelled lines: `x` is what `vectorize` makes of a batch of texts, `y` an int64."""

    def __init__(self, reader: TextReader, vectorize: Callable[[tf.Tensor], Any]) -> None:
        super().__init__(reader)
        self._vectorize = vectorize
        self._parser = RecordParser(self._vectorized, reader.read, self._misfit, batched=True)

    def batches(self, numbers: SampleIndices) -> tf.data.Dataset:
        """See `SampleSource.batches`."""
        return super().batches(numbers).map(self._parser.parse, num_parallel_calls=parallel_parses())

    def _read(self, numbers: NDArray[np.int64]) -> Sequence[NDArray]:
        self._parser.note(numbers)
        return super()._read(numbers)

    def _vectorized(self, texts: tf.Tensor, labels: tf.Tensor) -> tuple[Any, tf.Tensor]:
        return self._vectorize(texts), labels

    def _misfit(self, number: int, reason: str) -> DataError:
        return DataError(f"{self.name(number)} does not fit the vectorize function: {reason}")
