"""Which files a pattern means."""

from __future__ import annotations

import glob
import os
from collections.abc import Sequence
from pathlib import Path

from tfdist.errors import DataError


def check_local(path: str | os.PathLike[str]) -> None:
    """Raises a DataError for a path of another file system, of which only TFRecord files are read."""
    if "://" in os.fspath(path):
        raise DataError(
            f"{path} is on another file system. Expected files of this machine, or TFRecord files, which are read from "
            "there in sequence. Copy it here; tfdist data shard makes TFRecord files of it."
        )


def matching(files: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]) -> tuple[Path, ...]:
    """Returns the files that a pattern, a path or a list of these mean, in sorted order.

    Raises:
        DataError: A pattern matches no file, or a file does not exist.
    """
    patterns = [files] if isinstance(files, (str, os.PathLike)) else list(files)
    if not patterns:
        raise DataError("Expected at least one file or pattern. Received: an empty list.")
    found: set[str] = set()
    for pattern in [os.fspath(pattern) for pattern in patterns]:
        check_local(pattern)
        matches = [pattern] if os.path.exists(pattern) else glob.glob(pattern, recursive=True)
        if not matches:
            what = "No file matches" if glob.has_magic(pattern) else "No such file:"
            raise DataError(f"{what} {pattern} (working directory: {os.getcwd()}).")
        found.update(matches)
    for path in found:
        if os.path.isdir(path):
            raise DataError(f"{path} is a directory. Expected a file, or a pattern such as {path}/*.")
    return tuple(Path(path) for path in sorted(found))
