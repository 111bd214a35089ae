"""Samples of TFRecord files, by a function that parses a record or by the features of `tf.train.Example`.

Calling Python, and handing over an object for each record, takes longer than reading small records. So a call reads
some MB of them into one block, which TensorFlow cuts into strings without Python's lock.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias, cast

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from tfdist.config.data_sections import FeatureConfig
from tfdist.data.argument_checks import integer
from tfdist.data.files.file_patterns import FilePatterns
from tfdist.data.fingerprints import Fingerprint, of_files
from tfdist.data.formats.image_samples import ImageFeature
from tfdist.data.ops.prefetch import ReadLimits
from tfdist.data.ops.record_parser import RecordParser, reason_of
from tfdist.data.ops.sample_batches import (
    Augmentation,
    PaddedBatches,
    by_python,
    cut_filled,
    parallel_parses,
    parse_each,
)
from tfdist.data.ops.sample_indices import SampleIndices
from tfdist.data.random_access.numbered_records import OnCorrupt
from tfdist.data.random_access.record_reader import RecordBlock
from tfdist.data.sample_source import SampleSource
from tfdist.data.sequential.sequential_tfrecords import SequentialTFRecordReader, TFRecords, open_tfrecords
from tfdist.errors import DataError, UsageError
from tfdist.order.sequential_order import Lanes


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


Feature: TypeAlias = tf.io.FixedLenFeature | ImageFeature


def tfrecord_source(
    files: FilePatterns,
    parse: Callable[[tf.Tensor], Any] | None,
    features: Mapping[str, Feature] | None,
    label: str | None,
    on_corrupt: OnCorrupt = "stop",
    **sequential: int,
) -> SampleSource:
    """Opens TFRecord files by whichever of `parse` and `features` with `label` is given.

    `sequential` has `shuffle_buffer` and `interleave`, see `tfdist.data.tfrecords`.
    """
    if on_corrupt not in ("stop", "skip"):
        raise UsageError(f"on_corrupt: expected stop or skip. Received: {on_corrupt!r}")
    for name, value in sequential.items():
        integer(name, value, at_least=1)
    if parse is not None and features is None and label is None:
        return ParsedRecordSamples(files, parse, on_corrupt, **sequential)
    if parse is None and features is not None and label is not None:
        return ExampleSamples(files, features, label, on_corrupt, **sequential)
    given = [name for name, value in (("parse", parse), ("features", features), ("label", label)) if value is not None]
    raise UsageError(f"Expected either parse, or features and label. Received: {', '.join(given) or 'none of them'}")


def feature_of(config: FeatureConfig) -> Feature:
    """The feature that a config describes."""
    if config.dtype == "image":
        return ImageFeature(*config.shape)
    return tf.io.FixedLenFeature(tuple(config.shape), tf.as_dtype(config.dtype))


def feature_config(name: str, feature: Feature) -> FeatureConfig:
    """The description of a feature, as a config has it.

    Raises:
        UsageError: It is of another kind or type.
    """
    if isinstance(feature, ImageFeature):
        return FeatureConfig(dtype="image", shape=(feature.height, feature.width, feature.channels))
    dtype = getattr(getattr(feature, "dtype", None), "name", type(feature).__name__)
    if not isinstance(feature, tf.io.FixedLenFeature) or dtype not in ("string", "int64", "float32"):
        raise UsageError(
            f"features: {name} must be a tfdist.data.ImageFeature, or a tf.io.FixedLenFeature of strings, int64 or "
            f"float32. Received: {dtype}"
        )
    return FeatureConfig(dtype=cast(Any, dtype), shape=tuple(tf.TensorShape(feature.shape).as_list()))


class _Records:
    """The common part of both kinds of samples of TFRecord files."""

    _reader: TFRecords
    _parsing: RecordParser
    _what: str

    def __len__(self) -> int:
        return len(self._reader)

    def name(self, number: int) -> str:
        """See `SampleSource.name`."""
        return self._reader.names(np.array([number]))[0]

    def fingerprint(self) -> Fingerprint:
        """See `SampleSource.fingerprint`."""
        return of_files(_files_of(self._reader), len(self))

    @property
    def lanes(self) -> Lanes | None:
        """See `SequentialSource.lanes`."""
        return self._reader.lanes if isinstance(self._reader, SequentialTFRecordReader) else None

    def _open(self, reader: TFRecords, parse: Callable[[tf.Tensor], Any], what: str, batched: bool) -> None:
        """Takes the records and the function that makes samples of them, and tries it on the first record."""
        self._reader, self._what = reader, what
        self._parsing = RecordParser(parse, lambda numbers: (reader.read(numbers).cut(),), self._misfit, batched)
        (first,) = reader.read(np.zeros(1, np.int64)).cut()
        try:
            with tf.device("CPU:0"):
                parse(tf.constant([first] if batched else first))
        except tf.errors.OpError as error:
            raise self._misfit(0, reason_of(error)) from error

    def _in_groups(self, numbers: SampleIndices) -> PaddedBatches:
        return read_groups(numbers, self._read, pace=self._reader.pace)

    def _read(self, numbers: NDArray[np.int64]) -> RecordBlock:
        self._parsing.note(numbers)
        return self._reader.read(numbers)

    def _misfit(self, number: int, reason: str) -> DataError:
        return DataError(f"{self.name(number)} does not fit {self._what}: {reason}")


class ParsedRecordSamples(_Records):
    """TFRecord files with a function that parses one record."""

    def __init__(
        self, files: FilePatterns, parse: Callable[[tf.Tensor], Any], on_corrupt: OnCorrupt = "stop", **sequential: int
    ) -> None:
        """Looks up where the records lie, and tries `parse` on the first.

        Raises:
            DataError: See `open_tfrecords`, which has the arguments; or `parse` cannot read the first record.
        """
        self._open(open_tfrecords(files, on_corrupt, **sequential), parse, "the parse function", batched=False)

    def batches(self, numbers: SampleIndices) -> tf.data.Dataset:
        """See `SampleSource.batches`."""
        return self.augmented(numbers, None)

    def augmented(self, numbers: SampleIndices, augmentation: Augmentation | None) -> tf.data.Dataset:
        """See `PerSampleSource.augmented`."""
        return parse_each(self._in_groups(numbers), self._parsing.parse, augmentation)


class ExampleSamples(_Records):
    """TFRecord files of `tf.train.Example`, read by the names and types of their features."""

    def __init__(
        self,
        files: FilePatterns,
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
        self._images: dict[str, ImageFeature] = {
            name: feature for name, feature in features.items() if isinstance(feature, ImageFeature)
        }
        self._features = dict(features) | dict.fromkeys(self._images, tf.io.FixedLenFeature((), tf.string))
        self._label = label
        self._open(open_tfrecords(files, on_corrupt, **sequential), self._samples, "the features", batched=True)

    def batches(self, numbers: SampleIndices) -> tf.data.Dataset:
        """See `SampleSource.batches`."""
        batches = self._in_groups(numbers).batches

        def parse(count: tf.Tensor, rows: tuple[tf.Tensor, ...]) -> Any:
            return self._parsing.parse(*cut_filled(count, rows))

        return batches.map(parse, num_parallel_calls=parallel_parses())

    def _samples(self, records: tf.Tensor) -> tuple[Any, tf.Tensor]:
        x = tf.io.parse_example(records, self._features)
        for name, feature in self._images.items():
            x[name] = feature.decode(x[name])
        y = x.pop(self._label)
        return (x if len(x) > 1 else next(iter(x.values()))), y


def _files_of(reader: TFRecords) -> Sequence[str | os.PathLike[str]]:
    if isinstance(reader, SequentialTFRecordReader):
        return [file.name for file in reader.files]
    return reader.records.paths
