"""Text files with one sample a line: an integer label, a separator, the text."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tfdist.config.data_sections import TextSource
from tfdist.config.dotted_path import resolve_callable
from tfdist.data.files.file_facts import random_calls_of
from tfdist.data.files.file_patterns import FilePatterns, matching
from tfdist.data.random_access.line_reader import TextReader
from tfdist.data.random_access.numbered_records import sizes_of_records
from tfdist.data.sample_source import ArraySpec, SampleSource, SampleSpecs
from tfdist.plan.plan_inputs import SourceSizes

if TYPE_CHECKING:
    import tensorflow as tf


def open_source(section: TextSource, key: str) -> SampleSource:
    """See `FormatModule.open_source`."""
    vectorize = resolve_callable(section.vectorize, f"{key}.vectorize") if section.vectorize else None
    return text_source(section.files, vectorize, section.label_separator)


def sample_specs(section: TextSource) -> SampleSpecs | None:
    """See `FormatModule.sample_specs`."""
    return None if section.vectorize else SampleSpecs(ArraySpec("string"), ArraySpec("int64"))


def measure(section: TextSource, key: str) -> SourceSizes:
    """See `FormatModule.measure`."""
    reader = TextReader(matching(section.files), section.label_separator)
    calls = random_calls_of(section.vectorize) if section.vectorize else ()
    vectorized = section.vectorize is not None
    return sizes_of_records("text", reader.records, None, estimated=vectorized, random_calls=calls)


def text_source(
    files: FilePatterns, vectorize: Callable[[tf.Tensor], Any] | None = None, label_separator: str = "\t"
) -> SampleSource:
    """The lines of text files: `x` is a string or what `vectorize` makes of it, `y` an int64."""
    # Imported here: to look up sizes takes no TensorFlow.
    from tfdist.data.formats.reader_samples import ReaderSamples, VectorizedTextSamples

    reader = TextReader(matching(files), label_separator)
    return ReaderSamples(reader) if vectorize is None else VectorizedTextSamples(reader, vectorize)
