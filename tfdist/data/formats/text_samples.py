"""Lines of text that a function turns into tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from tfdist.data.formats.reader_samples import ReaderSamples
from tfdist.data.ops.record_parser import RecordParser
from tfdist.data.ops.sample_batches import parallel_parses
from tfdist.data.ops.sample_indices import SampleIndices
from tfdist.errors import DataError

if TYPE_CHECKING:
    from tfdist.data.random_access.labelled_lines import TextReader


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
