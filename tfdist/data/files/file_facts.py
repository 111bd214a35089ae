"""Facts on files: on which file system, in which source file, and the stamp by which a change is noticed."""

from __future__ import annotations

import os
import re
import sys
from dataclasses import dataclass
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path

from tfdist.errors import DataError
from tfdist.plan.random_calls import random_calls


@dataclass(frozen=True)
class FileStamp:
    """Size and time of a file.

    Attributes:
        size: In bytes.
        modified_ns: When it was last written, in ns since 1970.
    """

    size: int
    modified_ns: int

    @classmethod
    def of(cls, status: os.stat_result) -> FileStamp:
        """The stamp of a file with this status."""
        return cls(status.st_size, status.st_mtime_ns)


def changed_error(name: str | os.PathLike[str], what: str = "") -> DataError:
    """The error of a file that changed while a run was using it; `what` says how."""
    return DataError(
        f"{name} changed while the run was using it{what and f': {what}'}. Expected files that do not change until the "
        "run ends. Start again once it is written."
    )


_MOUNTS = Path("/proc/self/mounts")
_ESCAPED = re.compile(r"\\([0-7]{3})")
_LOCAL = frozenset({"ext2", "ext3", "ext4", "xfs", "btrfs", "zfs", "f2fs", "tmpfs", "overlay", "ramfs", "vfat"})
"""Kinds of file systems that other hosts do not see."""


def local_file_system(path: str | os.PathLike[str], mounts: Path = _MOUNTS) -> str | None:
    """Returns the kind of file system that a file lies on, where no other machine sees it; else None.

    Args:
        path: The file.
        mounts: The kernel's list of mounts.
    """
    place = os.path.realpath(path)
    try:
        lines = mounts.read_text("utf-8", "replace").splitlines()
    except OSError:
        return None
    best, kind = "", None
    for line in lines:
        fields = line.split()
        if len(fields) < 3:
            continue
        point = _ESCAPED.sub(lambda octal: chr(int(octal[1], 8)), fields[1])  # as \040 for a space
        inside = point == "/" or place == point or place.startswith(f"{point}/")
        if inside and len(point) >= len(best):
            best, kind = point, fields[2]
    return kind if kind in _LOCAL else None


def random_calls_of(path: str) -> tuple[str, ...]:
    """Returns what the function at a dotted path draws random numbers with, as `name (file:line)`; see `random_calls`.

    A function without Python source, or one that is not found, has none: calling it will say what is wrong.
    """
    file, function = _source_of(path)
    if file is None:
        return ()
    try:
        source = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return ()
    return tuple(f"{name} ({file.name}:{line})" for name, line in random_calls(source, function))


def _source_of(path: str) -> tuple[Path | None, str]:
    """The file that a dotted path's module has its source in, and the rest of the path."""
    names = path.split(".")
    search: list[str] | None = [os.getcwd(), *sys.path]
    found: ModuleSpec | None = None
    rest: list[str] = []
    for position in range(1, len(names)):
        spec = PathFinder.find_spec(".".join(names[:position]), search) if search else None
        if spec is None:
            break
        found, rest = spec, names[position:]
        search = list(spec.submodule_search_locations or ())
    if found is None or not found.origin or not found.origin.endswith(".py"):
        return None, ""
    return Path(found.origin), ".".join(rest)
