"""TFRecord files as samples: by a function that parses a record, or by the features of `tf.train.Example`."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from tfdist.data.fingerprints import Fingerprint, of_files
from tfdist.data.image_features import ImageFeature
from tfdist.data.numbering import SampleNumbers
from tfdist.data.parsing import Parsing
from tfdist.data.reading import Augmentation, Filled, cut_filled, parallel_parses, parse_each
from tfdist.data.reading_groups import read_groups
from tfdist.data.record_reader import Block
from tfdist.data.records import OnCorrupt
from tfdist.data.sequential_tfrecords import SequentialTFRecordReader, TFRecords, open_tfrecords
from tfdist.data.sources import Files
from tfdist.errors import DataError
from tfdist.order.lanes import Lanes

Feature = tf.io.FixedLenFeature | ImageFeature


class _Records:
    """What is the same however records become samples."""

    _reader: TFRecords

    def __len__(self) -> int:
        return len(self._reader)

    def name(self, number: int) -> str:
        """See `Source.name`."""
        return self._reader.names(np.array([number]))[0]

    def fingerprint(self) -> Fingerprint:
        """See `Source.fingerprint`."""
        return of_files(_files_of(self._reader), len(self))

    @property
    def lanes(self) -> Lanes | None:
        """See `Sequential.lanes`."""
        return self._reader.lanes if isinstance(self._reader, SequentialTFRecordReader) else None

    def _groups(
        self, numbers: SampleNumbers, read: Callable[..., Any], beside: Sequence[tf.DType] = ()
    ) -> Filled:
        """The records, read many at a time by `read`; see `read_groups`."""
        return read_groups(numbers, read, beside, pace=self._reader.pace)


class ParsedTFRecordSource(_Records):
    """TFRecord files with a function that parses one record."""

    def __init__(
        self, files: Files, parse: Callable[[tf.Tensor], Any], on_corrupt: OnCorrupt = "stop", **sequential: int
    ) -> None:
        """Looks up where the records lie, and tries `parse` on the first.

        Raises:
            DataError: See `open_tfrecords`, which has the arguments; or `parse` cannot read the first record.
        """
        self._reader = open_tfrecords(files, on_corrupt, **sequential)
        self._parsing = Parsing(parse, lambda numbers: (self._reader.read(numbers).cut(),), self._misfit)
        _try_first(self._reader, lambda record, _: parse(record), "the parse function")

    def batches(self, numbers: SampleNumbers) -> tf.data.Dataset:
        """See `Source.batches`."""
        return self.augmented(numbers, None)

    def augmented(self, numbers: SampleNumbers, augmentation: Augmentation | None) -> tf.data.Dataset:
        """See `SampleBySample.augmented`."""
        return parse_each(self._groups(numbers, self._read), self._parsing.parse, augmentation)

    def _read(self, numbers: NDArray[np.int64]) -> Block:
        self._parsing.note(numbers)
        return self._reader.read(numbers)

    def _misfit(self, number: int, reason: str) -> DataError:
        return DataError(f"{self.name(number)} does not fit the parse function: {reason}")


class ExampleSource(_Records):
    """TFRecord files of `tf.train.Example`, read by the names and types of their features."""

    def __init__(
        self,
        files: Files,
        features: Mapping[str, Feature],
        label: str,
        on_corrupt: OnCorrupt = "stop",
        **sequential: int,
    ) -> None:
        """Looks up where the records lie, and tries the features on the first.

        Raises:
            DataError: See `open_tfrecords`, which has the arguments; or `label` is none of the features, or the first
                record lacks one.
        """
        if label not in features or len(features) < 2:
            raise DataError(f"Expected label to be one of several features: {', '.join(features)}. Received: {label}")
        self._images = {name: feature for name, feature in features.items() if isinstance(feature, ImageFeature)}
        self._features = dict(features) | dict.fromkeys(self._images, tf.io.FixedLenFeature((), tf.string))
        self._label = label
        self._reader = open_tfrecords(files, on_corrupt, **sequential)
        _try_first(self._reader, lambda *first: self._sample(*(part[tf.newaxis] for part in first)), "the features")

    def batches(self, numbers: SampleNumbers) -> tf.data.Dataset:
        """See `Source.batches`."""
        with tf.device("CPU:0"):
            paths = tf.constant([os.fsencode(path) for path in _files_of(self._reader)])

        def parse(count: tf.Tensor, rows: tuple[tf.Tensor, ...]) -> tuple[Any, tf.Tensor]:
            records, files, places = cut_filled(count, rows)
            # TensorFlow puts the names into the error about a record that lacks a feature.
            names = tf.strings.join([tf.gather(paths, files), ", record ", tf.strings.as_string(places)])
            return self._sample(records, names)

        groups = self._groups(numbers, self._read_and_locate, [tf.int64, tf.int64])
        return groups.batches.map(parse, num_parallel_calls=parallel_parses())

    def _read_and_locate(self, numbers: NDArray[np.int64]) -> list[Any]:
        return [*self._reader.read(numbers), *self._reader.places(numbers)]

    def _sample(self, records: tf.Tensor, names: tf.Tensor) -> tuple[Any, tf.Tensor]:
        x = tf.io.parse_example(records, self._features, example_names=names)
        for name, feature in self._images.items():
            x[name] = feature.decode(x[name], names)
        y = x.pop(self._label)
        return (x if len(x) > 1 else next(iter(x.values()))), y


def _files_of(reader: TFRecords) -> Sequence[str | os.PathLike[str]]:
    if isinstance(reader, SequentialTFRecordReader):
        return [file.name for file in reader.files]
    return reader.records.paths


def _try_first(reader: TFRecords, parse: Callable[[tf.Tensor, tf.Tensor], Any], what: str) -> None:
    first = np.zeros(1, np.int64)
    (record,), (name,) = reader.read(first).cut(), reader.names(first)
    try:
        with tf.device("CPU:0"):
            parse(tf.constant(record), tf.constant(name))
    except tf.errors.OpError as error:
        raise DataError(f"{name} does not fit {what}: {error.message}") from error
