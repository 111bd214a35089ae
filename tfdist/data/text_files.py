"""Text files with one sample a line: an integer label, a separator, the text."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tfdist.data.lines import LineReader
from tfdist.data.records import Records
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
            label, found, texts[place] = line.partition(separator)
            try:
                if not found:
                    raise ValueError("there is no separator")
                labels[place] = int(label)
            except ValueError as error:
                raise self._bad_line(int(indices[place]), line) from error
        return texts, labels

    def _bad_line(self, index: int, line: bytes) -> DataError:
        return DataError(
            f"{self._lines.name(index)}: expected an integer label, {self._label_separator!r} and the text. "
            f"Received: {line[:100].decode('utf-8', 'replace')!r}"
        )
