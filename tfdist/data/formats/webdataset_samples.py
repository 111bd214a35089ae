"""Samples of tar files as batches of tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from tfdist.data.formats.image_samples import decode_image
from tfdist.data.formats.reader_samples import ReaderSamples
from tfdist.data.formats.tar_reader import TarReader
from tfdist.data.ops.record_parser import RecordParser
from tfdist.data.ops.sample_batches import Augmentation, parse_each, read_filled
from tfdist.data.ops.sample_indices import SampleIndices
from tfdist.errors import DataError


class WebdatasetSamples(ReaderSamples):
    """Samples of tar files: `x` is a dict by extension, or a tensor where there is one besides the label.

    Args:
        reader: The files.
        label: The extension of the part that is `y`.

    Raises:
        DataError: The label is none of the features, or the only one; or the first sample does not fit them.
    """

    def __init__(self, reader: TarReader, label: str) -> None:
        super().__init__(reader)
        self._features, self._label = reader.features, label.lower().removeprefix(".")
        if self._label not in self._features or len(self._features) < 2:
            names = ", ".join(self._features)
            raise DataError(f"Expected label to be one of several features: {names}. Received: {label}")
        self._parser = RecordParser(self._decoded, lambda numbers: tuple(reader.read(numbers)), self._undecodable)
        first = reader.read(np.zeros(1, np.int64))
        try:
            with tf.device("CPU:0"):
                self._decoded(*(tf.constant(array[0]) for array in first))
        except tf.errors.OpError as error:
            raise self._undecodable(0, str(error.message)) from error

    def batches(self, numbers: SampleIndices) -> tf.data.Dataset:
        """See `SampleSource.batches`."""
        return self.augmented(numbers, None)

    def augmented(self, numbers: SampleIndices, augmentation: Augmentation | None) -> tf.data.Dataset:
        """See `PerSampleSource.augmented`."""
        return parse_each(read_filled(numbers, self._load()), self._parser.parse, augmentation)

    def _read(self, numbers: NDArray[np.int64]) -> Sequence[NDArray]:
        self._parser.note(numbers)
        return super()._read(numbers)

    def _decoded(self, *parts: tf.Tensor) -> tuple[Any, tf.Tensor]:
        x = {}
        for part, (name, feature) in zip(parts, self._features.items(), strict=True):
            is_image = feature.dtype == "image"
            x[name] = decode_image(part, tuple(feature.shape[:2]), feature.shape[2]) if is_image else part
        y = x.pop(self._label)
        return (x if len(x) > 1 else next(iter(x.values()))), y

    def _undecodable(self, number: int, reason: str) -> DataError:
        return DataError(f"{self.name(number)} does not fit the features: {reason}")
