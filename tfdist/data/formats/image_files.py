"""Folders of images, with one folder a class."""

from __future__ import annotations

from tfdist.config.data_sections import ImagesSource
from tfdist.data.files.file_facts import local_file_system
from tfdist.data.files.image_folder import ImageFiles
from tfdist.data.sample_source import ArraySpec, SampleSource, SampleSpecs
from tfdist.plan.plan_inputs import SourceSizes


def open_source(section: ImagesSource, key: str) -> SampleSource:
    """See `FormatModule.open_source`."""
    # Imported here: to look up sizes takes no TensorFlow.
    from tfdist.data.formats.image_samples import ImageSamples

    return ImageSamples(ImageFiles.find(section.path), section.size, section.channels)


def sample_specs(section: ImagesSource) -> SampleSpecs:
    """See `FormatModule.sample_specs`."""
    return SampleSpecs(ArraySpec("float32", (*section.size, section.channels)), ArraySpec("int64"))


def measure(section: ImagesSource, key: str) -> SourceSizes:
    """See `FormatModule.measure`."""
    found = ImageFiles.find(section.path)
    height, width = section.size
    return SourceSizes(
        "images",
        tuple(found.class_sizes()),
        4 * height * width * section.channels + 8,
        held_bytes=sum(len(str(path)) for path in found.paths),
        local_disk=local_file_system(section.path),
    )
