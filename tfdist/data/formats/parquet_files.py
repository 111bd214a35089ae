"""Parquet files: a column is the label, others are the features."""

from __future__ import annotations

import math

from tfdist.config.data_sections import ParquetSource
from tfdist.data.files.file_facts import local_file_system
from tfdist.data.files.file_patterns import matching
from tfdist.data.random_access.parquet_reader import ParquetFeatures, ParquetReader
from tfdist.data.sample_source import ArraySpec, SampleSource, SampleSpecs
from tfdist.plan.plan_inputs import FileSizes, SequentialRead, SourceSizes


def open_source(section: ParquetSource, key: str) -> SampleSource:
    """See `FormatModule.open_source`."""
    # Imported here: to look up sizes takes no TensorFlow.
    from tfdist.data.formats.reader_samples import ParquetSamples

    return ParquetSamples(_open(section), stack=section.stack)


def sample_specs(section: ParquetSource) -> SampleSpecs | None:
    """See `FormatModule.sample_specs`."""
    *features, label = _open(section).columns
    if section.stack:
        width = sum(math.prod(column.spec.shape) for column in features)
        return SampleSpecs(ArraySpec("float32", (width,)), label.spec)
    specs = {column.name: column.spec for column in features}
    return SampleSpecs(features[0].spec if len(features) == 1 else specs, label.spec) if features else None


def measure(section: ParquetSource, key: str) -> SourceSizes:
    """See `FormatModule.measure`. What is listed as files are row groups, which are read one by one."""
    reader = _open(section)
    groups, lanes = reader.groups, reader.lanes
    texts = any(spec.dtype == "string" for spec in reader.specs)
    return SourceSizes(
        "parquet",
        tuple(FileSizes(reader.group_name(group), group.rows, group.stored) for group in groups),
        round(sum(group.decoded for group in groups) / len(reader)),
        estimated=texts,
        held_bytes=2 * lanes.number * max(group.decoded for group in groups),
        local_disk=local_file_system(reader.paths[0]),
        sequence=SequentialRead("Parquet", lanes, unit="row group", whole=True),
    )


def _open(section: ParquetSource) -> ParquetReader:
    features = ParquetFeatures(section.label, section.columns, section.shapes)
    return ParquetReader(matching(section.files), features, section.interleave)
