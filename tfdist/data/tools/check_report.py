"""Report of what was found in files, as text and as JSON."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tfdist.data.tools.file_checks import FileCheck, FileProblem
from tfdist.text import format_bytes, format_count, table

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
