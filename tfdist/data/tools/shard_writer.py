"""Writer of shards: the work of each process of `tfdist data shard`."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tfdist.config import data_sections as sections
from tfdist.config.data_sections import SourceConfig
from tfdist.config.dotted_path import resolve_callable
from tfdist.data.files.file_patterns import matching
from tfdist.data.files.image_folder import ImageFiles
from tfdist.data.formats.csv_files import CsvReader
from tfdist.data.formats.npz_files import read_npz
from tfdist.data.random_access.line_reader import TextReader
from tfdist.data.random_access.record_index import open_index
from tfdist.data.tools.process_pool import ReportProgress, TaskFunction
from tfdist.data.tools.shard_manifest import check_same_kind
from tfdist.errors import DataError, UsageError

INPUT, LABEL = "x", "y"
"""Names of the two features that are written."""

SampleColumns = tuple[NDArray, NDArray]
"""`x` and `y` of k samples, each [k, ...]: float32, int64, or bytes as objects."""


class ShardableSamples(Protocol):
    """Samples as arrays that can be written."""

    def __len__(self) -> int:
        """The number of samples."""

    def read(self, indices: NDArray[np.int64]) -> SampleColumns:
        """Returns the samples `indices` [k]."""


def open_samples(section: sections.SourceConfig) -> ShardableSamples:
    """Opens a source.

    Raises:
        DataError: It is missing, damaged or empty.
        UsageError: Its samples cannot be written.
    """
    match section:
        case sections.NpzSource():
            return _Arrays(section)
        case sections.CsvSource():
            return CsvReader(matching(section.files), section.label, section.columns)
        case sections.TextSource():
            return _Texts(section)
        case sections.ImagesSource():
            return _Images(section)
    raise UsageError(
        f"Expected npz, csv, text or images to make TFRecord files of. Received: {section.format}, which needs none."
    )


def inputs_of(section: sections.SourceConfig) -> tuple[Path, ...]:
    """The files that a source reads.

    Raises:
        DataError: There are none.
    """
    if isinstance(section, sections.ImagesSource):
        return ImageFiles.find(section.path).paths
    if isinstance(section, sections.NpzSource):
        return (Path(section.path),)
    assert isinstance(section, sections.CsvSource | sections.TextSource)
    return matching(section.files)


def features_of(section: sections.SourceConfig, columns: SampleColumns) -> Mapping[str, dict[str, Any]]:
    """The `features` of a config that reads what was written, derived from some samples."""
    features = {name: _feature(values) for name, values in zip((INPUT, LABEL), columns, strict=True)}
    if isinstance(section, sections.ImagesSource):
        features[INPUT] = {"dtype": "image", "shape": [*section.size, section.channels]}
    return features


def _feature(values: NDArray) -> dict[str, Any]:
    kind = "string" if values.dtype == object else str(values.dtype)
    return {"dtype": kind} | ({"shape": list(values.shape[1:])} if values.ndim > 1 else {})


class _Arrays:
    """Arrays as a training would get them: floating-point numbers as float32, integers as int64."""

    def __init__(self, section: sections.NpzSource) -> None:
        x, y = read_npz(section.path, section.arrays)
        if len(x) != len(y):
            raise DataError(f"{section.path}: expected as many labels as samples. Received: {len(x)} and {len(y)}")
        self._names = [f"{section.path}, {name}" for name in section.arrays]
        self._arrays = x, y
        self.read(np.arange(0))  # raises at once for what cannot be written

    def __len__(self) -> int:
        return len(self._arrays[0])

    def read(self, indices: NDArray[np.int64]) -> SampleColumns:
        # Row by row, as large arrays are mapped from the file.
        pairs = zip(self._arrays, self._names, strict=True)
        x, y = (_writable(np.asarray(array[indices]), name) for array, name in pairs)
        return x, y


class _Texts:
    """Lines, or what `vectorize` makes of them."""

    def __init__(self, section: sections.TextSource) -> None:
        self._reader = TextReader(matching(section.files), section.label_separator)
        self._vectorize = resolve_callable(section.vectorize, "--vectorize") if section.vectorize else None

    def __len__(self) -> int:
        return len(self._reader)

    def read(self, indices: NDArray[np.int64]) -> SampleColumns:
        texts, labels = self._reader.read(indices)
        if self._vectorize is None:
            return texts, labels
        import tensorflow as tf

        with tf.device("CPU:0"):
            made = np.asarray(self._vectorize(tf.constant(texts)))
        if len(made) != len(texts):
            raise UsageError(f"--vectorize: expected one row for each of {len(texts)} texts. Received: {made.shape}")
        return _writable(made, "What --vectorize makes of a line"), labels


class _Images:
    """Images as they are in their files, each decoded once to check that it can be."""

    def __init__(self, section: sections.ImagesSource) -> None:
        # Imported here: only images need TensorFlow to be checked.
        from tfdist.data.formats.image_samples import check_decodable

        self._files = ImageFiles.find(section.path)
        self._channels = section.channels
        self._check = check_decodable

    def __len__(self) -> int:
        return len(self._files)

    def read(self, indices: NDArray[np.int64]) -> SampleColumns:
        images = np.empty(len(indices), np.object_)
        for place, index in enumerate(indices.tolist()):
            path = self._files.paths[index]
            try:
                images[place] = path.read_bytes()
            except OSError as error:
                raise DataError(f"Cannot read {path}: {error.strerror or error}.") from error
            self._check(self._channels, images[place], str(path))
        return images, self._files.labels[indices]


def _writable(values: NDArray, name: str) -> NDArray:
    """Returns an array in one of the three types that a `tf.train.Example` has."""
    if not values.ndim or 0 in values.shape[1:]:
        raise DataError(f"{name}: expected samples that are not empty. Received: the shape {values.shape[1:]} of each")
    if values.dtype.kind == "f":
        return values.astype(np.float32)
    if values.dtype.kind in "bi" or (values.dtype.kind == "u" and values.dtype.itemsize < 8):
        return values.astype(np.int64)
    if values.dtype.kind in "SUO":
        texts = [text.encode() if isinstance(text, str) else bytes(text) for text in values.ravel()]
        encoded = np.empty(values.size, np.object_)
        encoded[:] = texts
        return encoded.reshape(values.shape)
    raise DataError(
        f"{name}: expected numbers that fit into float32 or int64, or strings: a tf.train.Example has no others. "
        f"Received: {values.dtype}"
    )


READ_TOGETHER = 256
"""Samples that are read at once."""

UNFINISHED = ".unfinished"
"""The suffix of a shard's name while it is written."""


@dataclass(frozen=True)
class Shard:
    """A shard to write.

    Attributes:
        path: Its file.
        start: Its first sample.
        stop: The sample after its last.
    """

    path: Path
    start: int
    stop: int

    def __str__(self) -> str:
        return self.path.name


@dataclass(frozen=True)
class WrittenShard:
    """A shard that is written.

    Attributes:
        size: Its size in bytes.
        features: The `features` of a config that reads it.
    """

    size: int
    features: Mapping[str, Any]


def make_writer(section: SourceConfig) -> TaskFunction:
    """Opens the source, and returns a function from a `Shard`, which it writes, to a `WrittenShard`."""
    with _quiet():
        # Imported here: the process that hands out the work needs no TensorFlow, and starts at once.
        import tensorflow as tf

        tf.config.set_visible_devices([], "GPU")
        tf.constant(0)
        samples = open_samples(section)

    def write(shard: Shard, report: ReportProgress) -> WrittenShard:
        return _write(section, samples, shard, report)

    return write


def _write(section: SourceConfig, samples: ShardableSamples, shard: Shard, report: ReportProgress) -> WrittenShard:
    import tensorflow as tf

    unfinished = shard.path.with_name(shard.path.name + UNFINISHED)
    features: Mapping[str, Any] = {}
    try:
        with tf.io.TFRecordWriter(str(unfinished)) as writer:
            for start in range(shard.start, shard.stop, READ_TOGETHER):
                columns = samples.read(np.arange(start, min(start + READ_TOGETHER, shard.stop)))
                features = check_same_kind(shard.path.name, features_of(section, columns), features)
                for x, y in zip(*columns, strict=True):
                    writer.write(encode({INPUT: x, LABEL: y}))
                report(len(columns[0]))
        size = _settle(unfinished, shard.path)
        open_index(shard.path)
    except (OSError, tf.errors.OpError) as error:
        raise UsageError(
            f"{shard.path} could not be written: {getattr(error, 'strerror', None) or error}. Expected a directory "
            "that this user can write to, with room for the shards."
        ) from error
    return WrittenShard(size, features)


def _settle(unfinished: Path, path: Path) -> int:
    """Renames a file once it is on the disk; returns its size."""
    descriptor = os.open(unfinished, os.O_RDONLY)
    try:
        os.fsync(descriptor)
        size = os.fstat(descriptor).st_size
    finally:
        os.close(descriptor)
    os.replace(unfinished, path)
    return size


def encode(sample: Mapping[str, Any]) -> bytes:
    """Returns a sample as a serialized `tf.train.Example`.

    Args:
        sample: Feature -> its value: float32, int64, bytes, or an array of these, which is written flat.
    """
    import tensorflow as tf

    example = tf.train.Example()
    for name, value in sample.items():
        _fill(example.features.feature[name], np.asarray(value).ravel())
    return example.SerializeToString(deterministic=True)


def _fill(feature: Any, values: NDArray) -> None:
    kind = {"f": feature.float_list, "i": feature.int64_list}.get(values.dtype.kind, feature.bytes_list)
    kind.value.extend(values.tolist())


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Hides what TensorFlow prints on stderr while it starts, unless the start fails."""
    kept = os.dup(2)
    with tempfile.TemporaryFile() as printed:
        os.dup2(printed.fileno(), 2)
        try:
            yield
        except BaseException:
            printed.seek(0)
            os.write(kept, printed.read())
            raise
        finally:
            os.dup2(kept, 2)
            os.close(kept)
