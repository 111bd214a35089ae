"""Registry of the formats that a config can name, and the data plan of a config, by the sizes of its data.

The modules load TensorFlow only to make tensors, so that a plan, which asks for sizes alone, does without it.
"""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Mapping
from typing import Any, Protocol, cast

from tfdist.config import RunConfig
from tfdist.config.data_sections import SourceConfig
from tfdist.data.files.file_facts import random_calls_of
from tfdist.data.ops.prefetch import GROUP_BYTES, PARALLEL_GROUPS, PREFETCHED_STEPS
from tfdist.data.sample_source import SampleSource, SampleSpecs
from tfdist.plan.plan import DataPlan, make_plan
from tfdist.plan.plan_inputs import ClusterSize, PipelineBuffers, SourceSizes

_MODULES: Mapping[str, str] = {
    "npz": "npz_files",
    "tfrecord": "tfrecord_files",
    "csv": "csv_files",
    "parquet": "parquet_files",
    "images": "image_files",
    "text": "text_files",
    "generator": "generator_samples",
    "webdataset": "webdataset_files",
    "tfds": "tfds_files",
}
"""Format -> its module in `tfdist.data.formats`."""


class FormatModule(Protocol):
    """The interface that the module of a format must have."""

    def open_source(self, section: Any, key: str) -> SampleSource:
        """Opens what a section of this format describes.

        Args:
            section: The section, of this format's class.
            key: Its dotted key, such as `data.train`, for the errors.

        Raises:
            ConfigError: A dotted path does not import or names no function.
            DataError: The data is missing, damaged or empty.
        """

    def sample_specs(self, section: Any) -> SampleSpecs | None:
        """Returns what a sample `(x, y)` of `open_source` is, from headers alone: no sample is read.

        None where only the samples themselves, or a function of the user's, can tell.
        """

    def measure(self, section: Any, key: str) -> SourceSizes:
        """Returns the sizes of what `open_source` opens, after the same checks, without reading samples.

        `random_calls` are those of the format's own functions; `augment` and `sharding` are handled for all formats.
        """


def format_module(name: str) -> FormatModule:
    """The module of a format.

    Raises:
        TypeError: There is none.
    """
    if name not in _MODULES:
        raise TypeError(f"Expected a format that data/ reads: {', '.join(_MODULES)}. Received: {name}")
    return cast(FormatModule, importlib.import_module(f"tfdist.data.formats.{_MODULES[name]}"))


def open_source(section: SourceConfig, key: str) -> SampleSource:
    """Opens what a section describes; see `FormatModule.open_source`."""
    return format_module(section.format).open_source(section, key)


def sample_specs(section: SourceConfig) -> SampleSpecs | None:
    """Returns types and shapes of a section's samples; see `FormatModule.sample_specs`.

    Raises:
        DataError: The data is missing or damaged.
    """
    return None if section.augment else format_module(section.format).sample_specs(section)


def measure(section: SourceConfig, key: str = "data.train") -> SourceSizes:
    """Returns the sizes of what a section describes, after the checks that the run would make at its start.

    Args:
        section: The section; the function of a generator is looked for in the working directory, too.
        key: Its dotted key, for the errors.

    Raises:
        ConfigError: The function of a generator cannot be imported.
        DataError: The data is missing, damaged or empty.
    """
    sizes = format_module(section.format).measure(section, key)
    # Random numbers that `augment` draws besides those from the seed that it is given.
    augment = random_calls_of(section.augment) if section.augment else ()
    calls = (*sizes.random_calls, *augment)
    return dataclasses.replace(sizes, random_calls=calls, shares=section.sharding == "none")


# While groups are read, one more is being cut into batches.
_BUFFERING = PipelineBuffers(prefetched=PREFETCHED_STEPS, group_bytes=GROUP_BYTES, groups=PARALLEL_GROUPS + 1)


def plan_run(config: RunConfig, layout: ClusterSize) -> DataPlan:
    """Plans what a run will do with its data.

    Args:
        config: The run's.
        layout: Workers and replicas.

    Raises:
        DataError: The data is missing, damaged or empty.
    """
    sections = {"data.train": config.data.train, "data.validation": config.data.validation}
    sizes = {key: measure(section, key) for key, section in sections.items() if section is not None}
    return make_plan(config, layout, sizes, _BUFFERING)
