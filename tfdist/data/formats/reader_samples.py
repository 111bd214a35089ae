"""Samples that a reader returns as arrays, as batches of tensors."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from tfdist.data.fingerprints import Fingerprint, of_files
from tfdist.data.ops.sample_batches import LoadSamples, by_python, read_batches
from tfdist.data.ops.sample_indices import SampleIndices
from tfdist.data.sample_source import SampleReader


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
