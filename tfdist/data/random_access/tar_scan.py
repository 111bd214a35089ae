"""Scan of a tar file of the WebDataset layout: where its samples lie, whose members stand one after another."""

from __future__ import annotations

import re
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import numpy as np

from tfdist.data.random_access.scan_results import ScannedRecords
from tfdist.errors import DataError

_NAME = re.compile(r"((?:.*/)?[^./][^./]*)\.([^/]*)")
_META = re.compile(r"__[^/]*__(?:$|/)")
_BLOCK = 512
_TOGETHER = 4096
"""Samples that are reported at a time."""


def key_and_extension(member: tarfile.TarInfo) -> tuple[str, str] | None:
    """The sample that a member belongs to, and which part of it it is: `a/0001.seg.png` is the `seg.png` of `a/0001`.

    None for what is no part of a sample: folders, links, names without an extension, and `__names__` like this.
    """
    found = _NAME.fullmatch(member.name)
    if found is None or not member.isreg() or _META.match(member.name):
        return None
    return found[1], found[2].lower()


def scan_tar(file: IO[bytes], path: Path, size: int, verify: bool) -> Iterator[ScannedRecords]:
    """Finds the samples: each begins with the header of its first member and ends where the next one begins.

    Args:
        file: Open for reading bytes, at its start.
        path: Its name, for the errors.
        size: Its size in bytes.
        verify: Not used: only headers have checksums, and these are always compared.

    Yields:
        Some samples at a time.

    Raises:
        DataError: It is no plain tar file, a header is damaged, or it has no end.
    """
    starts: list[int] = []
    key, end = None, 0
    for member in members(file, path, size):
        found = key_and_extension(member)
        if found is not None and found[0] != key:
            if len(starts) == _TOGETHER:
                yield ScannedRecords(np.array(starts, np.int64), member.offset)
                starts = []
            key = found[0]
            starts.append(member.offset)
        end = _end_of(member)
    if starts:
        yield ScannedRecords(np.array(starts, np.int64), end)


def members(file: IO[bytes], path: Path, size: int) -> Iterator[tarfile.TarInfo]:
    """The headers of a plain tar file, in its order. See `scan_tar` for the arguments and errors."""
    if not size:
        return
    end = 0
    try:
        archive = tarfile.open(fileobj=file, mode="r:")  # noqa: SIM115 - the caller closes the file
        while (member := archive.next()) is not None:
            archive.members.clear()  # type: ignore[attr-defined] # which it would keep for ever
            end = _end_of(member)
            yield member
    except tarfile.TarError as error:
        if end:
            raise DataError(f"{path} is truncated: {_after(end)} its data ends ({error}). {_AGAIN}") from error
        raise DataError(
            f"{path} is no plain tar file: {error}. Expected one that is not compressed, as random access needs it. "
            "Decompress it, or write it again."
        ) from error
    file.seek(end)
    rest = file.read(_BLOCK)
    if rest.strip(b"\0"):
        raise DataError(f"{path} is damaged: {_after(end)} no header of a member stands. {_AGAIN}")
    if len(rest) < _BLOCK:
        raise DataError(f"{path} is truncated: {_after(end)} it has no end, which is a block of zeros. {_AGAIN}")


_AGAIN = "What was to write it may have been interrupted: write or copy it again."


def _after(end: int) -> str:
    return f"behind the members up to byte {end}"


def _end_of(member: tarfile.TarInfo) -> int:
    stored = member.size if member.isreg() else 0
    return member.offset_data + -(-stored // _BLOCK) * _BLOCK
