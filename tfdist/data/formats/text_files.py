"""Text files with one sample a line: an integer label, a separator, the text."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tfdist.data.random_access.line_reader import LineReader
from tfdist.data.random_access.records import Records
from tfdist.errors import DataError


class TextReader:
    """Random access to labelled lines."""

    def __init__(self, paths: tuple[Path, ...], label_separator: str = "\t") -> None:
        """Finds the lines.

        Raises:
            DataError: A file cannot be read, or there is no line that is not empty.
        """
        self._lines = LineReader(paths)
        self._label_separator = label_separator

    def __len__(self) -> int:
        return len(self._lines)

    def name(self, index: int) -> str:
        """Names a line for errors; see `LineReader.name`."""
        return self._lines.name(index)

    @property
    def records(self) -> Records:
        """Where the lines lie."""
        return self._lines.records

    def read(self, indices: NDArray[np.int64]) -> tuple[NDArray[np.object_], NDArray[np.int64]]:
        """Returns the texts, UTF-8 bytes as objects of shape [k], and the labels, [k], of the lines `indices` [k].

        Raises:
            DataError: A line has no label, or one that is no integer.
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
        ValueError: There is no label, or one that is no integer of 64 bits.
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
