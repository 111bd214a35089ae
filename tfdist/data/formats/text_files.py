"""Text files with one sample a line: an integer label, a separator, the text."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tfdist.config.data_sections import TextSource
from tfdist.config.dotted_path import resolve_callable
from tfdist.data.files.file_patterns import FilePatterns, matching
from tfdist.data.files.file_systems import random_calls_of
from tfdist.data.formats.record_sizes import sizes_of_records
from tfdist.data.random_access.line_reader import LineReader, LineSamples
from tfdist.data.sample_source import ArraySpec, SampleSource, SampleSpecs
from tfdist.errors import DataError
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
    from tfdist.data.formats.reader_samples import ReaderSamples
    from tfdist.data.formats.text_samples import VectorizedTextSamples

    reader = TextReader(matching(files), label_separator)
    return ReaderSamples(reader) if vectorize is None else VectorizedTextSamples(reader, vectorize)


class TextReader(LineSamples):
    """Random access to the labelled lines of text files."""

    def __init__(self, paths: tuple[Path, ...], label_separator: str = "\t") -> None:
        """Finds the lines.

        Raises:
            DataError: A file cannot be read, or there is no line that is not empty.
        """
        super().__init__(LineReader(paths))
        self._label_separator = label_separator

    @property
    def specs(self) -> tuple[ArraySpec, ...]:
        """See `SampleReader.specs`."""
        return ArraySpec("string"), ArraySpec("int64")

    def read(self, indices: NDArray[np.int64]) -> tuple[NDArray[np.object_], NDArray[np.int64]]:
        """Returns the texts, UTF-8 bytes as objects of shape [k], and the labels, [k], of the lines `indices` [k].

        Raises:
            DataError: A line has no label, or one that is not an integer.
        """
        texts, labels = np.empty(len(indices), np.object_), np.empty(len(indices), np.int64)
        separator = self._label_separator.encode()
        for place, line in enumerate(self._lines.read(indices)):
            try:
                labels[place], texts[place] = labelled(line, separator)
            except ValueError as error:
                raise DataError(f"{self._lines.name(int(indices[place]))}: {error}") from error
        return texts, labels


def labelled(line: bytes, separator: bytes) -> tuple[int, bytes]:
    """The label and the text of a line.

    Raises:
        ValueError: There is no label, or one that is not an integer of 64 bits.
    """
    label, found, text = line.partition(separator)
    number = _integer(label) if found else None
    if number is None:
        raise ValueError(
            f"expected an integer label, {separator.decode()!r} and the text. "
            f"Received: {line[:100].decode('utf-8', 'replace')!r}"
        )
    return number, text


def _integer(field: bytes) -> int | None:
    try:
        number = int(field)
    except ValueError:
        return None
    return number if -(1 << 63) <= number < 1 << 63 else None
