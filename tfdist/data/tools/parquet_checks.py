"""Checks of Parquet files: every row group is decoded, against the checksums of its pages where it has some."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from tfdist.data.files.parquet_footers import fatal_error
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
        return check_parts(path, report, lambda file, name, size: _parts(file, name, size, rules))

    return check


def _parts(opened: IO[bytes], path: Path, size: int, rules: ParquetRules) -> Iterator[FilePart]:
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
