"""The format `tfds`: opens a section's prepared dataset, and looks up its sizes."""

from __future__ import annotations

import math

import numpy as np

from tfdist.config.data_sections import TfdsSource
from tfdist.config.dotted_path import resolve_callable
from tfdist.data.files.file_facts import random_calls_of
from tfdist.data.formats.prepared_dataset import PreparedDataset
from tfdist.data.random_access.numbered_records import sizes_of_records
from tfdist.data.sample_source import ArraySpec, SampleSource, SampleSpecs
from tfdist.plan.plan_inputs import SourceSizes


def open_source(section: TfdsSource, key: str) -> SampleSource:
    """See `FormatModule.open_source`."""
    # Imported here: to look up sizes takes no TensorFlow.
    from tfdist.data.formats.tfds_samples import TfdsSamples

    function = resolve_callable(section.map, f"{key}.map") if section.map else None
    return TfdsSamples(_find(section), _features(section), section.label, function)


def sample_specs(section: TfdsSource) -> SampleSpecs | None:
    """See `FormatModule.sample_specs`."""
    if section.map is not None:
        return None
    dataset = _find(section)
    return dataset.specs(*dataset.keys(_features(section), section.label))


def measure(section: TfdsSource, key: str) -> SourceSizes:
    """See `FormatModule.measure`."""
    specs = sample_specs(section)
    calls = random_calls_of(section.map) if section.map else ()
    known = None if specs is None else _bytes_of(specs)
    records = _find(section).reader().records
    return sizes_of_records("tfds", records, known, estimated=known is None, random_calls=calls)


def _find(section: TfdsSource) -> PreparedDataset:
    return PreparedDataset.find(section.name, section.split, section.data_dir)


def _features(section: TfdsSource) -> list[str] | None:
    return None if section.features is None else list(section.features)


def _bytes_of(specs: SampleSpecs) -> int | None:
    """Bytes of a sample; None where there are strings, whose lengths only the records tell."""
    arrays = [*([specs.x] if isinstance(specs.x, ArraySpec) else specs.x.values()), specs.y]
    if any(array.dtype == "string" for array in arrays):
        return None
    return sum(np.dtype(array.dtype).itemsize * math.prod(array.shape) for array in arrays)
