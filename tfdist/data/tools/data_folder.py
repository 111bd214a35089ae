"""Files of data in folders: which files `tfdist data check` and `index` take where a folder is named."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tfdist.data.files.file_patterns import check_local, matching
from tfdist.data.tools.shard_manifest import MANIFEST_SUFFIX
from tfdist.errors import DataError

_OTHER = (
    *(".bmp", ".gif", ".jpeg", ".jpg", ".png", ".webp"),
    *(".h5", ".hdf5", ".keras", ".npy", ".npz", ".pkl", ".zip"),
    *(".html", ".ipynb", ".json", ".jsonl", ".lock", ".log", ".md", ".pbtxt", ".pdf", ".py", ".rst", ".sh", ".toml"),
    *(".xml", ".yaml", ".yml"),
)
"""Suffixes of what is no TFRecord, CSV, text, Parquet or tar file; TFRecord files may have any other, or none."""
_SHOWN = 5


@dataclass(frozen=True)
class FoundFiles:
    """The files that patterns and folders stand for.

    Attributes:
        paths: The files of data, sorted.
        left_out: Files of the folders that are no data by their names, sorted; without manifests and hidden files.
    """

    paths: tuple[Path, ...]
    left_out: tuple[Path, ...] = ()


def files_in(patterns: Sequence[str], suffixes: Sequence[str] = ()) -> FoundFiles:
    """The files that patterns, paths and folders mean. Manifests of shards are in neither list.

    Args:
        patterns: A folder stands for all files in it and in the folders below, hidden ones excepted.
        suffixes: More suffixes that no file of a folder may have, such as those of other formats; in lower case.

    Raises:
        DataError: A pattern or a folder has no file of data, or something cannot be read.
    """
    named: list[str] = []
    left_out: set[Path] = set()
    for pattern in patterns:
        if not os.path.isdir(pattern):
            check_local(pattern)
            named += [str(path) for path in matching([pattern]) if not path.name.endswith(MANIFEST_SUFFIX)]
            continue
        below = [path for path in _below(Path(pattern)) if not path.name.endswith(MANIFEST_SUFFIX)]
        other = [path for path in below if path.suffix.lower() in _OTHER or path.suffix.lower() in suffixes]
        if len(other) == len(below):
            raise DataError(f"{pattern} has no file to read. Expected TFRecord, CSV or text files. {_received(other)}")
        named += [str(path) for path in below if path not in other]
        left_out.update(other)
    if not named:
        raise DataError(
            f"There is no file to read. Expected TFRecord, CSV or text files. Received: {' '.join(patterns)}, only "
            f"*{MANIFEST_SUFFIX}, which say what shards were made of."
        )
    return FoundFiles(matching(named), tuple(sorted(left_out)))


def names_of(paths: Sequence[Path]) -> str:
    """The first few names: `a.md, b.json and 3 more`."""
    more = f" and {len(paths) - _SHOWN:,} more" if len(paths) > _SHOWN else ""
    return ", ".join(path.name for path in paths[:_SHOWN]) + more


def _received(other: Sequence[Path]) -> str:
    return f"Received: {names_of(other)}" if other else "Received: an empty directory"


def _below(folder: Path) -> Iterator[Path]:
    def fail(error: OSError) -> None:
        raise DataError(f"Cannot read {error.filename or folder}: {error.strerror or error}.") from error

    for place, folders, names in os.walk(folder, onerror=fail):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            if not name.startswith(".") and os.path.isfile(os.path.join(place, name)):
                yield Path(place, name)
