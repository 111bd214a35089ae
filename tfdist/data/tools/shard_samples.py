"""Samples of a source that can be written as features of `tf.train.Example`s."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tfdist.config import data_sections as sections
from tfdist.config.dotted_path import resolve_callable
from tfdist.data.files.file_patterns import matching
from tfdist.data.files.image_folder import ImageFiles
from tfdist.data.formats.csv_files import CsvReader
from tfdist.data.formats.npz_files import read_npz
from tfdist.data.random_access.labelled_lines import TextReader
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
        from tfdist.data.formats.image_features import check_decodable

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
