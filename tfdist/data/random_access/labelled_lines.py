"""Labelled lines of text files: a label, a separator and a text."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tfdist.data.random_access.line_reader import LineReader, LineSamples
from tfdist.data.sample_source import ArraySpec
from tfdist.errors import DataError


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
