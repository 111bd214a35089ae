"""How much data a section of a config means: files, samples and bytes. Without TensorFlow, and no sample is read."""

from __future__ import annotations

import dataclasses
import math
import os
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tfdist.config import data_sections as sections
from tfdist.config.dotted_path import resolve_callable, search_in
from tfdist.data.files.file_patterns import matching
from tfdist.data.files.file_systems import local_file_system, random_calls_of
from tfdist.data.files.remote_files import is_remote
from tfdist.data.formats.csv_files import CsvReader
from tfdist.data.formats.image_files import ImageFiles
from tfdist.data.formats.npz_headers import ArrayHeader, read_headers
from tfdist.data.formats.text_files import TextReader
from tfdist.data.random_access.records import Records
from tfdist.data.sequential.sequential_tfrecords import SequentialTFRecordReader, open_tfrecords
from tfdist.data.sequential.tfrecord_stream import CHUNK
from tfdist.errors import DataError
from tfdist.plan.plan_inputs import FileSizes, SequentialRead, SourceSizes

_WIDTHS = {"float32": 4, "int64": 8, "image": 4}


def measure(section: sections.SourceConfig, key: str = "data.train") -> SourceSizes:
    """Returns the sizes of what a section describes, after the checks that the run would make at its start.

    Args:
        section: The section; the function of a generator is looked for in the working directory, too.
        key: Its dotted key, for the errors.

    Raises:
        ConfigError: The function of a generator cannot be imported.
        DataError: The data is missing, damaged or empty.
    """
    if isinstance(section, sections.GeneratorSource):
        return dataclasses.replace(_generator(section, f"{key}.function"), shares=section.sharding == "none")
    for kind, how in _MEASURES.items():
        if isinstance(section, kind):
            return dataclasses.replace(how(section), shares=section.sharding == "none")
    raise TypeError(f"Expected the section of a format that data/ reads. Received: {type(section).__name__}")


def _npz(section: sections.NpzSource) -> SourceSizes:
    x, y = read_headers(section.path, (f"x_{section.split}", f"y_{section.split}"))
    samples, labels = x.shape[0], y.shape[0]
    if samples != labels:
        raise DataError(
            f"{section.path}, split {section.split}: expected arrays with the same number of samples. Received: "
            f"{samples} and {labels}"
        )
    if not samples:
        raise DataError(f"{section.path}, split {section.split}: expected at least one sample. Received: none.")
    sample = _row_bytes(x) + _row_bytes(y)
    file = FileSizes(section.path, samples, x.stored + y.stored)
    return SourceSizes(
        "npz",
        (file,),
        sample,
        held_bytes=samples * sum(_row_bytes(array) for array in (x, y) if not array.mapped),
        # Of a mapped array each worker reads its own rows; labels beside it are too small to count.
        whole=not x.mapped,
        random_calls=_augment_calls(section),
        local_disk=local_file_system(section.path),
    )


def _row_bytes(array: ArrayHeader) -> int:
    """Bytes of one sample's part in memory, where numbers with a point are float32."""
    width = 4 if array.dtype.kind == "f" else array.dtype.itemsize
    return math.prod(array.shape[1:]) * width


def _tfrecord(section: sections.TfrecordSource) -> SourceSizes:
    reader = open_tfrecords(section.files, section.on_corrupt, section.shuffle_buffer, section.interleave)
    known = None if section.features is None else _example_bytes(section.features)
    calls = random_calls_of(section.parse) if section.parse else ()
    if isinstance(reader, SequentialTFRecordReader):
        return _in_sequence(section, reader, known, calls)
    return _of_records(section, reader.records, known, estimated=known is None, calls=calls)


def _in_sequence(
    section: sections.TfrecordSource, reader: SequentialTFRecordReader, known: int | None, calls: tuple[str, ...]
) -> SourceSizes:
    files, lanes = reader.files, reader.lanes
    size = sum(file.stamp.size for file in files)
    # Of a compressed record nothing but its part of the file is known.
    sample = round(size / len(reader)) if known is None else known
    compression = next(file.compression for file in files if file.records)
    name = next(file.name for file in files if file.records)
    return SourceSizes(
        section.format,
        tuple(FileSizes(file.name, file.records, file.stamp.size) for file in files),
        sample,
        known is None,
        held_bytes=lanes.number * (lanes.window * sample + 2 * CHUNK),
        random_calls=(*calls, *_augment_calls(section)),
        local_disk=None if is_remote(name) else local_file_system(name),
        sequence=SequentialRead(f"{compression}-compressed" if compression else "on another file system", lanes),
    )


def _example_bytes(features: Mapping[str, sections.FeatureConfig]) -> int | None:
    """Bytes of the features of one sample; None when there are strings, whose lengths only the records know."""
    if any(feature.dtype not in _WIDTHS for feature in features.values()):
        return None
    return sum(_WIDTHS[feature.dtype] * math.prod(feature.shape) for feature in features.values())


def _csv(section: sections.CsvSource) -> SourceSizes:
    reader = CsvReader(matching(section.files), section.label, section.columns)
    return _of_records(section, reader.records, 4 * (reader.num_features + 1))


def _text(section: sections.TextSource) -> SourceSizes:
    reader = TextReader(matching(section.files), section.label_separator)
    calls = random_calls_of(section.vectorize) if section.vectorize else ()
    return _of_records(section, reader.records, None, estimated=section.vectorize is not None, calls=calls)


def _of_records(
    section: sections.SourceConfig,
    records: Records,
    sample_bytes: int | None,
    estimated: bool = False,
    calls: tuple[str, ...] = (),
) -> SourceSizes:
    sizes = [_size(path) for path in records.paths]
    counts = records.counts.tolist()
    files = tuple(FileSizes(str(path), *pair) for path, *pair in zip(records.paths, counts, sizes, strict=True))
    mapped = isinstance(records.starts, np.memmap)
    return SourceSizes(
        section.format,
        files,
        max(0, round(sum(sizes) / len(records)) - records.gap) if sample_bytes is None else sample_bytes,
        estimated,
        held_bytes=0 if mapped else records.starts.nbytes,
        random_calls=(*calls, *_augment_calls(section)),
        local_disk=local_file_system(records.paths[0]),
    )


def _images(section: sections.ImagesSource) -> SourceSizes:
    found = ImageFiles.find(section.path)
    sizes = np.array([_size(path) for path in found.paths], np.int64)
    height, width = section.size
    return SourceSizes(
        "images",
        tuple(_class_sizes(found, sizes, Path(section.path))),
        4 * height * width * section.channels + 8,
        held_bytes=sum(len(str(path)) for path in found.paths),
        random_calls=_augment_calls(section),
        local_disk=local_file_system(section.path),
    )


def _generator(section: sections.GeneratorSource, key: str) -> SourceSizes:
    """Asks the function: nobody else knows."""
    # Only here: a function of the user's is the one thing that needs TensorFlow to be looked at.
    from tfdist.data.formats.generator_samples import GeneratorSamples

    search_in(os.getcwd())
    function = resolve_callable(section.function, key)
    source = GeneratorSamples(function, None, section.samples, section.lanes, section.shuffle_buffer)
    lanes, bytes_ = source.lanes, source.sample_bytes
    names = [section.function] if section.lanes is None else [f"{section.function}({n})" for n in range(section.lanes)]
    return SourceSizes(
        "generator",
        tuple(FileSizes(name, count, count * bytes_) for name, count in zip(names, lanes.counts, strict=True)),
        bytes_,
        held_bytes=lanes.number * lanes.window * bytes_,
        random_calls=(*random_calls_of(section.function), *_augment_calls(section)),
        sequence=SequentialRead("made by a function", lanes),
    )


def _class_sizes(found: ImageFiles, sizes: NDArray[np.int64], root: Path) -> list[FileSizes]:
    """One entry a class: its images stand together in the order."""
    counts = np.bincount(found.labels, minlength=len(found.classes)).tolist()
    bytes_ = np.bincount(found.labels, weights=sizes, minlength=len(found.classes)).astype(np.int64).tolist()
    return [FileSizes(str(root / name), *pair) for name, *pair in zip(found.classes, counts, bytes_, strict=True)]


def _augment_calls(section: sections.SourceConfig) -> tuple[str, ...]:
    """What `augment` draws random numbers with beside the seed that it is given."""
    return random_calls_of(section.augment) if section.augment else ()


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError as error:
        raise DataError(f"Cannot read {path}: {error.strerror or error}.") from error


_MEASURES: Mapping[type[sections.SourceConfig], Callable[..., SourceSizes]] = {
    sections.NpzSource: _npz,
    sections.TfrecordSource: _tfrecord,
    sections.CsvSource: _csv,
    sections.TextSource: _text,
    sections.ImagesSource: _images,
}
