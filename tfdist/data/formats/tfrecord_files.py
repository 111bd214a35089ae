"""TFRecord files, of `tf.train.Example` or of anything that a function parses: their reader and their sizes."""

from __future__ import annotations

import math
from collections.abc import Mapping

from tfdist.config.data_sections import FeatureConfig, TfrecordSource
from tfdist.config.dotted_path import resolve_callable
from tfdist.data.files.file_facts import local_file_system, random_calls_of
from tfdist.data.files.remote_files import is_remote
from tfdist.data.random_access.numbered_records import sizes_of_records
from tfdist.data.sample_source import ArraySpec, SampleSource, SampleSpecs
from tfdist.data.sequential.sequential_tfrecords import SequentialTFRecordReader, open_tfrecords, why_in_sequence
from tfdist.data.sequential.tfrecord_stream import CHUNK
from tfdist.plan.plan_inputs import FileSizes, SequentialRead, SourceSizes

_WIDTHS = {"float32": 4, "int64": 8, "image": 4}

def open_source(section: TfrecordSource, key: str) -> SampleSource:
    """See `FormatModule.open_source`."""
    # Imported here: to look up sizes takes no TensorFlow.
    from tfdist.data.formats.tfrecord_samples import feature_of, tfrecord_source

    parse = resolve_callable(section.parse, f"{key}.parse") if section.parse else None
    features = {name: feature_of(feature) for name, feature in section.features.items()} if section.features else None
    return tfrecord_source(
        section.files,
        parse,
        features,
        section.label,
        section.on_corrupt,
        shuffle_buffer=section.shuffle_buffer,
        interleave=section.interleave,
    )


def sample_specs(section: TfrecordSource) -> SampleSpecs | None:
    """See `FormatModule.sample_specs`."""
    if section.features is None:
        return None
    specs = {name: feature_spec(feature) for name, feature in section.features.items()}
    label = specs.pop(str(section.label))
    return SampleSpecs(specs if len(specs) > 1 else next(iter(specs.values())), label)


def feature_spec(feature: FeatureConfig) -> ArraySpec:
    return ArraySpec("float32" if feature.dtype == "image" else feature.dtype, tuple(feature.shape))


def measure(section: TfrecordSource, key: str) -> SourceSizes:
    """See `FormatModule.measure`."""
    reader = open_tfrecords(section.files, section.on_corrupt, section.shuffle_buffer, section.interleave)
    known = None if section.features is None else example_bytes(section.features)
    calls = random_calls_of(section.parse) if section.parse else ()
    if isinstance(reader, SequentialTFRecordReader):
        return _sizes_in_sequence(reader, known, calls)
    return sizes_of_records("tfrecord", reader.records, known, estimated=known is None, random_calls=calls)


def _sizes_in_sequence(
    reader: SequentialTFRecordReader, known: int | None, calls: tuple[str, ...]
) -> SourceSizes:
    files, lanes = reader.files, reader.lanes
    size = sum(file.stamp.size for file in files)
    # All that is known of a compressed record is its part of the file.
    sample = round(size / len(reader)) if known is None else known
    compression = next(file.compression for file in files if file.records)
    name = next(file.name for file in files if file.records)
    return SourceSizes(
        "tfrecord",
        tuple(FileSizes(file.name, file.records, file.stamp.size) for file in files),
        sample,
        known is None,
        held_bytes=lanes.number * (lanes.window * sample + 2 * CHUNK),
        random_calls=calls,
        local_disk=None if is_remote(name) else local_file_system(name),
        sequence=SequentialRead(why_in_sequence(compression or ""), lanes),
    )


def example_bytes(features: Mapping[str, FeatureConfig]) -> int | None:
    """Bytes of the features of one sample; None where there are strings, whose lengths only the records tell."""
    if any(feature.dtype not in _WIDTHS for feature in features.values()):
        return None
    return sum(_WIDTHS[feature.dtype] * math.prod(feature.shape) for feature in features.values())
