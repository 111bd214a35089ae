"""Reader of the lines of text files, and the base of formats whose samples are lines."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tfdist.data.random_access.numbered_records import Records
from tfdist.data.random_access.record_reader import RecordReader
from tfdist.data.sample_source import ArraySpec
from tfdist.errors import DataError

_CHUNK = 16 << 20

_COMPRESSED = {b"\x1f\x8b": "GZIP", b"BZh": "bzip2", b"\xfd7zXZ\x00": "xz", b"\x28\xb5\x2f\xfd": "Zstandard"}
"""First bytes of files that are not text -> their compression."""


class LineReader:
    """Random access to the lines of text files that are not empty."""

    def __init__(self, paths: tuple[Path, ...], header: bool = False) -> None:
        """Finds the lines.

        Args:
            paths: The files.
            header: Whether the first line of each that is not empty is a header and no record.

        Raises:
            DataError: A file cannot be read, or is compressed, or there is no line.
        """
        for path in paths:
            _check_plain(path)
        self.records = Records.open(paths, "lines", header=header)
        self._reader = RecordReader(self.records)

    def __len__(self) -> int:
        return len(self.records)

    def read(self, indices: NDArray[np.int64]) -> list[bytes]:
        """Returns the lines `indices` [k], without their line ends.

        Raises:
            DataError: A file can no longer be read, or has changed.
        """
        # What is read goes on to the next line that is not empty: the line ends in it.
        return [data.partition(b"\n")[0].removesuffix(b"\r") for data in self._reader.read(indices).cut()]

    def name(self, index: int) -> str:
        """Names a line for an error: its file and its number, counted from 1 as in editors.

        Raises:
            DataError: The file has changed, which is then what is wrong.
        """
        spans = self.records.locate(np.array([index]))
        number, left = int(spans.files[0]), int(spans.offsets[0])
        self._reader.check_unchanged(number)
        path, line = self.records.paths[number], 1
        with open(path, "rb") as file:
            while left > 0 and (chunk := file.read(min(_CHUNK, left))):
                line += chunk.count(b"\n")
                left -= len(chunk)
        return f"{path}, line {line}"


class LineSamples:
    """The common part of the readers of samples of one line each; a format adds `specs` and `read`."""

    def __init__(self, lines: LineReader) -> None:
        """Takes the lines, of which each is a sample."""
        self._lines = lines

    def __len__(self) -> int:
        return len(self._lines)

    def name(self, index: int) -> str:
        """Names a line for errors; see `LineReader.name`."""
        return self._lines.name(index)

    @property
    def records(self) -> Records:
        """The places of the lines in the files."""
        return self._lines.records

    @property
    def paths(self) -> tuple[Path, ...]:
        """See `SampleReader.paths`."""
        return self.records.paths


def _check_plain(path: Path) -> None:
    try:
        with open(path, "rb") as file:
            begin = file.read(6)
    except OSError as error:
        raise DataError(f"Cannot read {path}: {error.strerror or error}.") from error
    for magic, name in _COMPRESSED.items():
        if begin.startswith(magic):
            raise DataError(
                f"{path} is {name}-compressed. Expected plain text, whose lines can be read in any order. "
                "Decompress it; tfdist data shard makes TFRecord files of it."
            )


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
