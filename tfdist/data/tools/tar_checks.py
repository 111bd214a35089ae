"""Checks of tar files of the WebDataset layout: every header, and that each sample has the parts that the first has."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from tfdist.data.random_access.tar_scan import key_and_extension, members
from tfdist.data.tools.file_checks import FileCheck, FilePart, FileProblem, check_parts
from tfdist.data.tools.process_pool import ReportProgress, TaskFunction

Sample = tuple[str, int, int, frozenset[str]]
"""The key of a sample, the byte where it begins, the byte where its last part does, and its extensions."""


def make_tar_checker(_: None) -> TaskFunction:
    """Returns what checks a file, for `run_in_processes`; it reports bytes."""
    return check_tar


def check_tar(path: Path, report: ReportProgress) -> FileCheck:
    """Reads the headers of a tar file; the data of members has no checksums."""
    return check_parts(path, report, _parts)


def _parts(file: IO[bytes], path: Path, size: int) -> Iterator[FilePart]:
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
