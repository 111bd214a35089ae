"""CSV files of numbers: a header that names the columns, then one sample a line."""

from __future__ import annotations

import csv
import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray

from tfdist.config.data_sections import CsvSource
from tfdist.data.files.file_patterns import matching
from tfdist.data.random_access.file_scans import BYTE_ORDER_MARK
from tfdist.data.random_access.line_reader import LineReader, LineSamples
from tfdist.data.random_access.numbered_records import sizes_of_records
from tfdist.data.sample_source import ArraySpec, SampleSource, SampleSpecs
from tfdist.errors import DataError
from tfdist.plan.plan_inputs import SourceSizes

_MOST_HEADER_BYTES = 1 << 22
"""Of the line with the names of the columns: a file of something else may have no line end at all."""


def open_source(section: CsvSource, key: str) -> SampleSource:
    """See `FormatModule.open_source`."""
    # Imported here: to look up sizes takes no TensorFlow.
    from tfdist.data.formats.reader_samples import ReaderSamples

    return ReaderSamples(CsvReader(matching(section.files), section.label, section.columns))


def sample_specs(section: CsvSource) -> SampleSpecs:
    """See `FormatModule.sample_specs`."""
    paths = matching(section.files)
    columns = _columns(paths, section.label, section.columns)
    return SampleSpecs(ArraySpec("float32", (len(columns.places) - 1,)), ArraySpec("float32"))


def measure(section: CsvSource, key: str) -> SourceSizes:
    """See `FormatModule.measure`."""
    reader = CsvReader(matching(section.files), section.label, section.columns)
    return sizes_of_records("csv", reader.records, 4 * (reader.num_features + 1))


@dataclass(frozen=True)
class CsvColumns:
    """The fields of a line that are read.

    Attributes:
        header: The names of all fields.
        places: The places of the fields that are read, in their order.
    """

    header: Sequence[str]
    places: Sequence[int]

    @classmethod
    def named(cls, names: Sequence[str], header: Sequence[str], path: Path) -> CsvColumns:
        """The columns with these names.

        Raises:
            DataError: The header, which is that of `path`, lacks a name or has it more than once.
        """
        places: dict[str, list[int]] = {}
        for place, name in enumerate(header):
            places.setdefault(name, []).append(place)
        return cls(header, [_place(name, places, path) for name in names])

    def numbers(self, line: bytes) -> list[float]:
        """The values of a line.

        Raises:
            ValueError: It has another number of fields than the header, wrong quotes, or a field that is not a number.
        """
        try:
            fields = _fields(line)
            if len(fields) != len(self.header):
                expected = f"{len(self.header)} columns ({', '.join(self.header)})"
                raise ValueError(f"expected {expected}, found {len(fields)}")
            return [float(fields[place]) for place in self.places]
        except (ValueError, csv.Error) as error:
            raise ValueError(f"{error}. Received: {line.decode('utf-8', 'replace')[:200]}") from error


class CsvReader(LineSamples):
    """Random access to the rows of CSV files as features and a label.

    Fields are numbers, separated by commas, and may stand in double quotes; a field cannot hold a line end.
    """

    def __init__(self, paths: tuple[Path, ...], label: str, columns: Sequence[str] | None) -> None:
        """Reads the headers and finds the rows.

        Args:
            paths: The files; empty ones are left out.
            label: The column of the labels.
            columns: The columns of the features, in this order; None for all but the label.

        Raises:
            DataError: A file cannot be read, headers differ, a column is not in them, or there is no row.
        """
        super().__init__(LineReader(paths, header=True))
        self._columns = _columns(paths, label, columns)

    @property
    def specs(self) -> tuple[ArraySpec, ...]:
        """See `SampleReader.specs`."""
        return ArraySpec("float32", (self.num_features,)), ArraySpec("float32")

    @property
    def num_features(self) -> int:
        """The size of a sample's `x`."""
        return len(self._columns.places) - 1

    def read(self, indices: NDArray[np.int64]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Returns the features `[k, num_features]` and labels `[k]` of the rows `indices` [k].

        Raises:
            DataError: A row has another number of fields than the header, or a field that is not a number.
        """
        lines = self._lines.read(indices)
        values = np.empty((len(lines), len(self._columns.places)), np.float32)
        for place, line in enumerate(lines):
            try:
                values[place] = self._columns.numbers(line)
            except ValueError as error:
                raise DataError(f"{self._lines.name(int(indices[place]))}: {error}") from error
        return values[:, :-1], values[:, -1]


def _columns(paths: Sequence[Path], label: str, columns: Sequence[str] | None) -> CsvColumns:
    """The columns of the features, then that of the labels; see `CsvReader`."""
    header = common_header(paths)
    names = list(columns) if columns is not None else [name for name in header if name != label]
    return CsvColumns.named([*names, label], header, paths[0])


def _fields(line: bytes) -> list[str]:
    text = line.decode("utf-8")
    return next(csv.reader([text], strict=True)) if '"' in text else text.split(",")


def common_header(paths: Sequence[Path]) -> list[str]:
    """Returns the header that all files have which are not empty.

    Raises:
        DataError: A file cannot be read, or has another header than those before it.
    """
    common: list[str] | None = None
    for path in paths:
        try:
            with open(path, "rb") as file:
                line = _first_line(file)
            header = [name.strip() for name in _fields(line)]
        except OSError as error:
            raise DataError(f"Cannot read {path}: {error.strerror or error}.") from error
        except (ValueError, csv.Error) as error:
            raise DataError(f"{path}, line 1: expected the names of the columns, in UTF-8, {error}.") from error
        if header == [""]:
            continue
        if common is not None and header != common:
            raise DataError(
                f"{path} has other columns than the files before it. Expected the header {', '.join(common)}. "
                f"Received: {', '.join(header)}"
            )
        common = header
    return common or []


def _first_line(file: IO[bytes]) -> bytes:
    """The first line that is not empty, without its end."""
    for line in iter(lambda: file.readline(_MOST_HEADER_BYTES + 1), b""):
        if len(line) > _MOST_HEADER_BYTES:
            raise ValueError(f"but it has more than {_MOST_HEADER_BYTES:,} bytes")
        content = line.removeprefix(BYTE_ORDER_MARK).removesuffix(b"\n").removesuffix(b"\r")
        if content:
            return content
    return b""


def _place(name: str, places: Mapping[str, Sequence[int]], path: Path) -> int:
    found = places.get(name, ())
    if len(found) == 1:
        return found[0]
    if found:
        numbers = ", ".join(str(place + 1) for place in found)
        raise DataError(
            f"{path} has {len(found)} columns named {name!r} ({numbers}). Expected a unique name for each column that "
            "is read. Rename them, or list the columns that are to be read without these."
        )
    near = difflib.get_close_matches(name, places, n=1)
    hint = f" Did you mean {near[0]}?" if near else ""
    raise DataError(f"{path} has no column {name}. Its header names: {', '.join(places)}.{hint}")
