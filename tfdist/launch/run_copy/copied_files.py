"""Copied files of a run directory: which are to be copied now, in which order, and which the copy is to lose."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

RUN_FILE = "state/run.json"
"""Marks a run directory, and its copy."""
COPY_FILE = "state/copy.json"
"""Of the copy alone: by which start of the run it was made. On this host: by which it was when this host wrote it."""

BYTES_PER_SECOND = 1 << 20
"""A file that grows is copied again at most so often that it takes this much, as each time all of it is sent."""

_MARKER = "checkpoint.json"
_LEFT_OUT = re.compile(r"state/copy\.json|checkpoints/generations/.*|(?:.*/)?\.[^/]*(?:/.*)?")
"""Names that are left out: what each side has for itself, claims of elastic jobs, and files that are being written."""
_AT_THE_END = re.compile(r"state/worker-[^/]*\.json")
"""States of workers change every second."""


@dataclass(frozen=True)
class LocalFile:
    """A file of a run directory.

    Attributes:
        name: Its path below the directory, with slashes.
        size: Its bytes.
        changed_ns: When it was last written, in ns since 1970.
    """

    name: str
    size: int
    changed_ns: int


@dataclass(frozen=True)
class Copied:
    """A file as it was copied.

    Attributes:
        file: The file.
        at: When, by the monotonic clock.
    """

    file: LocalFile
    at: float


def is_copied(name: str) -> bool:
    """Returns whether a file of a run directory belongs to its copy, by its path below the directory."""
    return _LEFT_OUT.fullmatch(name) is None


def local_files(folder: Path) -> list[LocalFile]:
    """The files of a run directory that belong to its copy; links are left out, and what is gone meanwhile.

    Raises:
        OSError: The directory cannot be read.
    """
    return [file for file in _files_below(folder, "") if is_copied(file.name)]


def _files_below(folder: Path, prefix: str) -> Iterator[LocalFile]:
    try:
        with os.scandir(folder) as entries:
            found = sorted(entries, key=lambda entry: entry.name)
    except FileNotFoundError:
        return
    for entry in found:
        name = prefix + entry.name
        if entry.is_dir(follow_symlinks=False):
            yield from _files_below(folder / entry.name, f"{name}/")
        elif entry.is_file(follow_symlinks=False):
            try:
                status = entry.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue
            yield LocalFile(name, status.st_size, status.st_mtime_ns)


def due_files(
    files: Iterable[LocalFile], copied: Mapping[str, Copied], now: float, *, is_last: bool = False
) -> list[LocalFile]:
    """The files to copy, in their order: first what marks the run, and last what marks checkpoints as whole.

    Args:
        files: Those of the run directory.
        copied: Name -> how it was copied.
        now: The time, by the monotonic clock.
        is_last: Whether no other chance comes.
    """

    def is_due(file: LocalFile) -> bool:
        if _AT_THE_END.fullmatch(file.name) and not is_last:
            return False
        before = copied.get(file.name)
        if before is None or before.file == file:
            return before is None
        return is_last or now - before.at >= file.size / BYTES_PER_SECOND

    return sorted(filter(is_due, files), key=lambda file: (_place(file.name), file.name))


def dropped_names(files: Collection[LocalFile], there: Collection[str]) -> list[str]:
    """Returns what the copy has and the run directory has no longer, marks of checkpoints first.

    Args:
        files: Those of the run directory.
        there: What the copy has.
    """
    dropped = {name for name in there if is_copied(name)} - {file.name for file in files}
    return sorted(dropped, key=lambda name: (not _is_marker(name), name))


def marks_any_of(name: str, others: Collection[str]) -> bool:
    """Returns whether a file marks a checkpoint as whole that has one of some others."""
    folder, _, _ = name.rpartition("/")
    return _is_marker(name) and any(other.startswith(f"{folder}/") for other in others)


def _place(name: str) -> int:
    return 0 if name == RUN_FILE else 2 if _is_marker(name) else 1


def _is_marker(name: str) -> bool:
    return name.rpartition("/")[2] == _MARKER
