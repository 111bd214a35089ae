"""Checks of CSV, text, Parquet and tar files: every line, row group or header, as a run would read it."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from tfdist.data.files.parquet_footers import fatal_error
from tfdist.data.formats.csv_files import CsvColumns, common_header
from tfdist.data.random_access.file_scans import BYTE_ORDER_MARK, key_and_extension, members
from tfdist.data.random_access.line_reader import labelled
from tfdist.data.random_access.parquet_columns import load_pyarrow
from tfdist.data.tools.file_checks import FileCheck, FilePart, FileProblem, check_parts
from tfdist.data.tools.process_pool import ReportProgress, TaskFunction
from tfdist.errors import DataError


@dataclass(frozen=True)
class ParquetRules:
    """The rules by which Parquet files are checked.

    Attributes:
        columns: Those that are read; None for all.
        fatal: Files that would end the process that reads them -> by which signal, see `fatal_footers`.
    """

    columns: Sequence[str] | None = None
    fatal: Mapping[str, str] = field(default_factory=dict)


def make_parquet_checker(rules: ParquetRules) -> TaskFunction:
    """Returns what checks a file, for `run_in_processes`; it reports bytes.

    Raises:
        UsageError: pyarrow is not installed.
    """
    load_pyarrow()

    def check(path: Path, report: ReportProgress) -> FileCheck:
        return check_parts(path, report, lambda file, name, size: _row_group_parts(file, name, size, rules))

    return check


def _row_group_parts(opened: IO[bytes], path: Path, size: int, rules: ParquetRules) -> Iterator[FilePart]:
    if not size:
        return
    if str(path) in rules.fatal:
        raise fatal_error(str(path), rules.fatal[str(path)])
    columns = rules.columns
    arrow = load_pyarrow()
    failures = (OSError, ValueError, arrow.ArrowException)
    try:
        file = arrow.parquet.ParquetFile(opened, page_checksum_verification=True)
        names = file.schema_arrow.names
    except failures as error:
        raise DataError(f"{path} cannot be read as a Parquet file: {_in_line(error)}.") from None
    absent = [name for name in columns or () if name not in names]
    if absent:
        raise DataError(f"{path} has no column {', '.join(absent)}. It has: {', '.join(names)}.")
    rows = end = 0
    for number in range(file.num_row_groups):
        try:
            group = file.metadata.row_group(number)
            end += max(0, _stored(group))
        except failures as error:
            raise DataError(f"{path}, row group {number}: {_in_line(error)}.") from None
        problems = []
        try:
            file.read_row_group(number, columns=None if columns is None else list(columns))
        except failures as error:
            text = f"{path}, row group {number}, rows {rows} to {rows + group.num_rows - 1}: {_in_line(error)}."
            problems.append(FileProblem(text, rows, None, "data"))
        rows += group.num_rows
        # Of a damaged group no row can be read: all but the one that stands for it are taken off here.
        yield FilePart(end, 1 if problems else group.num_rows, problems)


def _stored(group: Any) -> int:
    return sum(int(group.column(place).total_compressed_size) for place in range(group.num_columns))


def _in_line(error: BaseException) -> str:
    return " ".join(str(error).split()).rstrip(".") or type(error).__name__


Sample = tuple[str, int, int, frozenset[str]]
"""The key of a sample, the byte where it begins, the byte where its last part does, and its extensions."""


def make_tar_checker(_: None) -> TaskFunction:
    """Returns what checks a file, for `run_in_processes`; it reports bytes."""
    return check_tar


def check_tar(path: Path, report: ReportProgress) -> FileCheck:
    """Reads the headers of a tar file; the data of members has no checksums."""
    return check_parts(path, report, _tar_parts)


def _tar_parts(file: IO[bytes], path: Path, size: int) -> Iterator[FilePart]:
    expected: frozenset[str] | None = None
    for number, (key, start, end, parts) in enumerate(_samples(file, path, size)):
        expected = parts if expected is None else expected
        problems = []
        if parts != expected:
            has, others = ", ".join(sorted(parts)), ", ".join(sorted(expected))
            text = f"{path}, sample {number} ({key}), at byte {start}: it has {has}. The first one has {others}."
            problems.append(FileProblem(text, number, start, "data"))
        yield FilePart(end, 1, problems)


def _samples(file: IO[bytes], path: Path, size: int) -> Iterator[Sample]:
    found = ((member, key_and_extension(member)) for member in members(file, path, size))
    named = ((member, *parts) for member, parts in found if parts is not None)
    for key, group in itertools.groupby(named, lambda part: part[1]):
        parts = [(member, extension) for member, _, extension in group]
        extensions = frozenset(extension for _, extension in parts)
        yield key, parts[0][0].offset, parts[-1][0].offset_data + parts[-1][0].size, extensions


PART_LINES = 10_000
"""Lines after which progress is reported."""


@dataclass(frozen=True)
class CsvRules:
    """Conditions that the lines of CSV files must meet.

    Attributes:
        header: The names of all columns, the same in every file.
        columns: The names of those that are read and must be numbers.
    """

    header: Sequence[str]
    columns: Sequence[str]

    @classmethod
    def of(cls, paths: Sequence[Path], columns: Sequence[str] | None) -> CsvRules:
        """The rules by the header of the files.

        Args:
            paths: The files.
            columns: Those that are read; None for all.

        Raises:
            DataError: A file cannot be read, headers differ, or a column is not in them.
        """
        header = common_header(paths)
        CsvColumns.named(columns or (), header, paths[0])
        return cls(header, columns or header)


@dataclass(frozen=True)
class TextRules:
    """Conditions that the lines of text files must meet.

    Attributes:
        label_separator: What stands between the label, an integer, and the text.
    """

    label_separator: str


def make_line_checker(rules: CsvRules | TextRules) -> TaskFunction:
    """Returns what checks a file, for `run_in_processes`; it reports bytes."""

    def check(path: Path, report: ReportProgress) -> FileCheck:
        if isinstance(rules, CsvRules):
            columns = CsvColumns.named(rules.columns, rules.header, path)
            return check_parts(path, report, functools.partial(_line_parts, read=columns.numbers, header=True))
        separator = rules.label_separator.encode()
        return check_parts(path, report, functools.partial(_line_parts, read=lambda line: labelled(line, separator)))

    return check


def _line_parts(
    file: IO[bytes], path: Path, size: int, read: Callable[[bytes], object], header: bool = False
) -> Iterator[FilePart]:
    """Reads every line that is not empty by `read`, which raises ValueError for a bad one."""
    records = end = seen = 0
    problems: list[FileProblem] = []
    for number, line in enumerate(file, 1):
        start, end = end, end + len(line)
        content = line.removesuffix(b"\n").removesuffix(b"\r")
        content = content.removeprefix(BYTE_ORDER_MARK) if number == 1 else content
        if content and header:
            header = False
        elif content:
            try:
                read(content)
            except ValueError as error:
                problems.append(FileProblem(f"{path}, line {number}: {error}", seen + records, start, "line"))
            records += 1
        if records == PART_LINES:
            yield FilePart(end, records, problems)
            seen, records, problems = seen + records, 0, []
    yield FilePart(size, records, problems)
