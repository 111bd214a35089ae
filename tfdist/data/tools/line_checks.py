"""Checks of CSV and text files: every line, as a run would read it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from tfdist.data.formats.csv_files import CsvColumns, common_header
from tfdist.data.random_access.labelled_lines import labelled
from tfdist.data.random_access.line_scan import BYTE_ORDER_MARK
from tfdist.data.tools.file_checks import FileCheck, FilePart, FileProblem, check_parts
from tfdist.data.tools.process_pool import ReportProgress, TaskFunction

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
            return check_parts(path, report, functools.partial(_parts, read=columns.numbers, header=True))
        separator = rules.label_separator.encode()
        return check_parts(path, report, functools.partial(_parts, read=lambda line: labelled(line, separator)))

    return check


def _parts(
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
