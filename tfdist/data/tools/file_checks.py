"""Checks of TFRecord files: every record against its checksums, and whether shards are missing.

`format_checks` has those of other files.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, NamedTuple

from tfdist.data.random_access.file_scans import CorruptReason
from tfdist.data.random_access.tfrecord_scan import HEADER_BYTES, scan_tfrecord
from tfdist.data.sequential.tfrecord_stream import compression_of, read_records
from tfdist.data.tools.process_pool import ReportProgress, TaskFunction
from tfdist.errors import DataError
from tfdist.text import format_bytes, format_count, table

_SHARD = re.compile(r"(?P<name>.*)-(?P<shard>[0-9]{1,6})-of-(?P<shards>[0-9]{1,6})(?P<rest>\..*)?")
"""With more digits it is a number of something else: every shard is looked for."""
_MOST_MISSING = 5


@dataclass(frozen=True)
class FileProblem:
    """Something wrong with a file.

    Attributes:
        text: A sentence that says what is wrong and names the file.
        record: The corrupt record, counted from 0; None for the file as a whole.
        offset: Where in the file it begins, in bytes.
        reason: `length`, `data`, `truncated`, `line`, `unreadable`, `empty` or `missing`.
    """

    text: str
    record: int | None
    offset: int | None
    reason: str


@dataclass(frozen=True)
class FileCheck:
    """The findings in a file.

    Attributes:
        path: The file.
        size: Its size in bytes.
        records: The number of whole records.
        problems: What is wrong, in the order of the file.
    """

    path: Path
    size: int
    records: int
    problems: tuple[FileProblem, ...]


def total_size(paths: Iterable[Path]) -> int:
    """Bytes of the files that exist."""
    total = 0
    for path in paths:
        with contextlib.suppress(OSError):
            total += path.stat().st_size
    return total


def make_checker(_: None) -> TaskFunction:
    """Returns what checks a file, for `run_in_processes`; it reports bytes."""
    return check_file


def check_file(path: Path, report: ReportProgress) -> FileCheck:
    """Reads a TFRecord file from its beginning to its end; a compressed one to the first fault.

    That a file cannot be read, or is not a TFRecord file, is a finding like any other: the others are still checked.
    """
    return check_parts(path, report, _parts)


class FilePart(NamedTuple):
    """The findings in the next stretch of a file.

    Attributes:
        end: Where it ends, in bytes from the start of the file.
        records: The number of records that begin in it, with bad ones.
        problems: What is wrong with them.
    """

    end: int
    records: int
    problems: Sequence[FileProblem]


def check_parts(
    path: Path, report: ReportProgress, parts: Callable[[IO[bytes], Path, int], Iterable[FilePart]]
) -> FileCheck:
    """Joins what is found in the parts of a file; that it cannot be read is a finding, too.

    Args:
        path: The file.
        report: Called with the number of bytes that were read.
        parts: From the open file, its name and its size to its parts, in order.
    """
    size = records = position = 0
    problems: list[FileProblem] = []
    try:
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            for part in parts(file, path, size):
                problems += part.problems
                records += part.records
                report(min(part.end, size) - position)
                position = min(part.end, size)
            if not size:
                problems.append(_empty(path))
    except OSError as error:
        problems.append(FileProblem(f"Cannot read {path}: {error.strerror or error}.", None, None, "unreadable"))
    except DataError as error:
        problems.append(FileProblem(str(error), None, None, "unreadable"))
    report(size - position)
    return FileCheck(path, size, records - sum(problem.record is not None for problem in problems), tuple(problems))


def _empty(path: Path) -> FileProblem:
    """A file without a byte: reading it is no error, and a program that was interrupted leaves such files."""
    text = (
        f"{path}: it has 0 bytes, and so no record. Expected one or more. What was to write it may have been "
        "interrupted: write it again, or remove it."
    )
    return FileProblem(text, None, None, "empty")


def _parts(file: IO[bytes], path: Path, size: int) -> Iterator[FilePart]:
    if compression := compression_of(str(path)):
        # The places of its records in the file are not known, and after a fault no record is found.
        yield from (FilePart(0, len(found), ()) for found in read_records(str(path), compression))
        return
    records = 0
    for found in scan_tfrecord(file, path, size, verify=True):
        problems = [
            _corrupt(path, records + place, int(found.starts[place]) - HEADER_BYTES, reason)
            for place, reason in found.corrupt
        ]
        records += len(found.starts)
        yield FilePart(found.end, len(found.starts), problems)


def _corrupt(path: Path, record: int, offset: int, reason: CorruptReason) -> FileProblem:
    return FileProblem(reason.message(path, record, offset), record, offset, reason.name.lower())


def missing_shards(paths: Iterable[Path]) -> Iterator[FileProblem]:
    """Shards that are missing by the names of others: `train-00003-of-00008.tfrecord` must have seven more."""
    groups: dict[tuple[Path, str, str, str], None] = {}
    for path in paths:
        if match := _SHARD.fullmatch(path.name):
            groups[path.parent, match["name"], match["shards"], match["rest"] or ""] = None
    for folder, name, shards, rest in groups:
        there = _names_in(folder)
        names = (f"{name}-{shard:0{len(shards)}}-of-{shards}{rest}" for shard in range(int(shards)))
        missing = [shard for shard in names if shard not in there or not (folder / shard).exists()]
        if missing:
            shown = ", ".join(missing[:_MOST_MISSING])
            more = f" and {len(missing) - _MOST_MISSING} more" if len(missing) > _MOST_MISSING else ""
            text = f"{folder}: {len(missing)} of {int(shards)} shards are missing: {shown}{more}."
            yield FileProblem(text, None, None, "missing")


def _names_in(folder: Path) -> set[str]:
    try:
        return set(os.listdir(folder))
    except OSError:
        return set()


_MOST_GOOD = 20
_MOST_PROBLEMS = 10


def render(files: Sequence[FileCheck], missing: Sequence[FileProblem]) -> str:
    """A line for each file, with what is wrong below it, and the totals at the end."""
    return "\n".join((*_lines(files), *(problem.text for problem in missing), _total(files, missing)))


def _lines(files: Sequence[FileCheck]) -> Iterator[str]:
    good = [file for file in files if not file.problems]
    shown = [file for file in files if file.problems or len(good) <= _MOST_GOOD]
    for file, line in zip(shown, table([_row(file) for file in shown], "lrrl", gap=3), strict=True):
        yield line
        for problem in file.problems[:_MOST_PROBLEMS]:
            yield f"  {problem.text}"
        if len(file.problems) > _MOST_PROBLEMS:
            yield f"  and {len(file.problems) - _MOST_PROBLEMS:,} more"
    if len(good) > _MOST_GOOD:
        yield f"{format_count(len(good), 'file')}{' more' if shown else ''}: ok"


def _row(file: FileCheck) -> tuple[str, ...]:
    state = "ok" if not file.problems else "empty" if file.problems[0].reason == "empty" else "damaged"
    return str(file.path), format_count(file.records, "record"), format_bytes(file.size), state


def _total(files: Sequence[FileCheck], missing: Sequence[FileProblem]) -> str:
    records, size = sum(file.records for file in files), sum(file.size for file in files)
    bad = [problem for file in files for problem in file.problems]
    wrong = format_count(len(bad) + len(missing), "problem") if bad or missing else "nothing wrong"
    return f"{format_count(len(files), 'file')}, {format_count(records, 'record')}, {format_bytes(size)}: {wrong}"


def to_json(
    files: Sequence[FileCheck], missing: Sequence[FileProblem], left_out: Sequence[Path] = ()
) -> dict[str, Any]:
    """The report in JSON's types; sizes and offsets in bytes."""
    return {
        "files": [dataclasses.asdict(file) | {"path": str(file.path)} for file in files],
        "missing": [problem.text for problem in missing],
        "left_out": [str(path) for path in left_out],
        "records": sum(file.records for file in files),
        "bytes": sum(file.size for file in files),
        "ok": not missing and not any(file.problems for file in files),
    }
