"""Scans of files for their records, chunk by chunk: of lines, and of tar files of the WebDataset layout."""

from __future__ import annotations

import re
import tarfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray

from tfdist.errors import DataError


class CorruptReason(IntEnum):
    """The reason why a record is corrupt. Index files hold the numbers."""

    LENGTH = 1
    DATA = 2
    TRUNCATED = 3

    def message(self, path: Path, record: int, offset: int) -> str:
        """Says in one sentence what is wrong with a record that begins at `offset`."""
        if self is CorruptReason.TRUNCATED:
            return f"{path} is truncated: it ends inside record {record}, which begins at byte {offset}."
        what = "length" if self is CorruptReason.LENGTH else "data"
        return f"{path}, record {record}, at byte {offset}: the {what}'s checksum is wrong, the file is damaged."


@dataclass(frozen=True)
class ScannedRecords:
    """The records of one chunk of a file.

    Attributes:
        starts: int64 [k], bytes from the start of the file to each record.
        end: Where the next record starts, or would.
        corrupt: The corrupt ones among them: place in `starts` and reason.
    """

    starts: NDArray[np.int64]
    end: int
    corrupt: Sequence[tuple[int, CorruptReason]] = ()


CHUNK = 16 << 20
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_NEWLINE, _RETURN = 10, 13


def scan_lines(file: IO[bytes], path: Path, size: int, verify: bool) -> Iterator[ScannedRecords]:
    """Finds the lines that are not empty. They end with LF or CR LF, the last one may do without.

    Args:
        file: Open for reading bytes, at its start.
        path: Not used, as a line has no checksum that could be wrong.
        size: The size of the file in bytes.
        verify: Not used.

    Yields:
        The lines that end in each chunk. The first line is without the byte order mark.
    """
    start = len(BYTE_ORDER_MARK) if file.read(3) == BYTE_ORDER_MARK else 0
    file.seek(0)
    position, last = 0, b""
    while chunk := file.read(CHUNK):
        data = np.frombuffer(last + chunk, np.uint8)
        places = np.flatnonzero(data[len(last) :] == _NEWLINE)
        stops = places + position
        if len(places):
            starts = np.concatenate([[start], stops[:-1] + 1])
            before = places + len(last) - 1
            returns = (before >= 0) & (data[before] == _RETURN)
            start = int(stops[-1]) + 1
            yield ScannedRecords(starts[stops - returns > starts], start)
        position, last = position + len(chunk), chunk[-1:]
    if position - (last == b"\r") > start:
        yield ScannedRecords(np.array([start]), position)
    elif position > start:
        yield ScannedRecords(np.empty(0, np.int64), position)


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
