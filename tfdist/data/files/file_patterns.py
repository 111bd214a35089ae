"""Patterns of file names, and the local files that they match."""

from __future__ import annotations

import glob
import os
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias

from tfdist.errors import DataError
from tfdist.url_schemes import fault_of, is_url

FilePatterns: TypeAlias = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
"""A path, a pattern such as `train-*.tfrecord`, or a list of these."""


def check_scheme(path: str | os.PathLike[str]) -> None:
    """Raises a DataError for a URL that nothing here reads."""
    fault = fault_of(path)
    if fault is not None:
        raise DataError(fault)


def check_local(path: str | os.PathLike[str]) -> None:
    """Raises a DataError for a path on a remote file system, from which only TFRecord files are read."""
    check_scheme(path)
    if is_url(path):
        raise DataError(
            f"{path} is on another file system. Expected files of this machine, or TFRecord files, which are read from "
            "there in sequence. Copy it here; tfdist data shard makes TFRecord files of it."
        )


def matching(files: FilePatterns) -> tuple[Path, ...]:
    """Returns the files that a pattern, a path or a list of these mean, in sorted order.

    A file that is named twice, as by a pattern and by its path, is one file.

    Raises:
        DataError: A pattern matches no file, or a file does not exist, or a folder cannot be read.
    """
    patterns = [files] if isinstance(files, (str, os.PathLike)) else list(files)
    if not patterns:
        raise DataError("Expected at least one file or pattern. Received: an empty list.")
    found: dict[Path, str] = {}
    for pattern in [os.fspath(pattern) for pattern in patterns]:
        check_local(pattern)
        try:
            matches = [pattern] if _exists(pattern) else _globbed(pattern)
        except OSError as error:
            raise DataError(f"Cannot read {error.filename or pattern}: {error.strerror or error}.") from error
        if not matches:
            what = "No file matches" if glob.has_magic(pattern) else "No such file:"
            raise DataError(f"{what} {pattern} (working directory: {os.getcwd()}).")
        for match in matches:
            found.setdefault(Path(match) if os.path.isabs(match) else Path.cwd() / match, match)
    for path in found.values():
        _check_kind(path)
    return tuple(Path(path) for path in sorted(found.values()))


def _check_kind(path: str) -> None:
    """Refuses what is no regular file: whoever opens a pipe may wait for ever."""
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return  # whoever reads it says what is wrong
    if stat.S_ISDIR(mode):
        raise DataError(f"{path} is a directory. Expected a file, or a pattern such as {path}/*.")
    if not stat.S_ISREG(mode):
        raise DataError(f"{path} is not a regular file. Expected one: data is read more than once. Copy it to a file.")


def _exists(path: str) -> bool:
    try:
        os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def _globbed(pattern: str) -> list[str]:
    """Returns what a pattern matches; raises OSError where a folder that it searches cannot be read."""
    folder = os.path.dirname(pattern)
    for place in _globbed(folder) if glob.has_magic(folder) else [folder or os.curdir]:
        if os.path.isdir(place):
            with os.scandir(place) as entries:
                next(entries, None)  # glob takes a folder that cannot be read for an empty one
    return glob.glob(pattern, recursive=True)
