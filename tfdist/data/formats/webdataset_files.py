"""The format `webdataset`: opens a section's tar files, and looks up their sizes."""

from __future__ import annotations

from tfdist.config.data_sections import WebdatasetSource
from tfdist.data.files.file_patterns import matching
from tfdist.data.formats.tar_reader import TarReader
from tfdist.data.formats.tfrecord_files import example_bytes, feature_spec
from tfdist.data.random_access.numbered_records import sizes_of_records
from tfdist.data.sample_source import SampleSource, SampleSpecs
from tfdist.plan.plan_inputs import SourceSizes


def open_source(section: WebdatasetSource, key: str) -> SampleSource:
    """See `FormatModule.open_source`."""
    # Imported here: to look up sizes takes no TensorFlow.
    from tfdist.data.formats.webdataset_samples import WebdatasetSamples

    return WebdatasetSamples(TarReader(matching(section.files), section.features), section.label)


def sample_specs(section: WebdatasetSource) -> SampleSpecs:
    """See `FormatModule.sample_specs`."""
    specs = {name.lower().removeprefix("."): feature_spec(feature) for name, feature in section.features.items()}
    label = specs.pop(section.label.lower().removeprefix("."))
    return SampleSpecs(specs if len(specs) > 1 else next(iter(specs.values())), label)


def measure(section: WebdatasetSource, key: str) -> SourceSizes:
    """See `FormatModule.measure`."""
    reader = TarReader(matching(section.files), section.features)
    known = example_bytes(section.features)
    return sizes_of_records("webdataset", reader.records, known, estimated=known is None)
