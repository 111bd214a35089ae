"""Fingerprints of data: names, sizes and a little of the content, by which other workers know the same data."""

from __future__ import annotations

import os
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tfdist.data.files.remote_files import is_remote, stamp_of
from tfdist.errors import DataError
from tfdist.text import format_count

_FILES_SIZED = 1024
"""Files of a source whose sizes are looked at, spread over all files."""

_FILES_READ = 16
"""Files of a source of which something is read."""

_BYTES = 1 << 12
"""Bytes that are read at the beginning, in the middle and at the end of a file."""

_ROWS = 64
"""Rows of an array that are looked at."""

_NAMES = 3
"""File names that an error shows."""


@dataclass(frozen=True)
class Fingerprint:
    """The value that workers compare: two sources with the same fingerprint hold the same samples.

    Attributes:
        samples: The number of samples in the source.
        parts: What holds them, such as `2 files (a.tfrecord, b.tfrecord)`.
        checksum: The CRC-32 of what was looked at.
    """

    samples: int
    parts: str
    checksum: int

    def __str__(self) -> str:
        return f"{self.parts}, {format_count(self.samples, 'sample')}"


def of_files(files: Sequence[str | os.PathLike[str]], samples: int, folder: str | os.PathLike[str] = "") -> Fingerprint:
    """The fingerprint of samples in files.

    Args:
        files: Their names, in the order of the samples. Of remote files only the names count.
        samples: The number of samples in all files.
        folder: Names count from this folder on; without it only the last part of each.

    Raises:
        DataError: A file cannot be read.
    """
    names = [_name(os.fspath(file), folder) for file in files]
    checksum = zlib.crc32("\0".join(names).encode("utf-8", "surrogateescape"))
    local = [file for file in files if not is_remote(file)]
    for file in _spread(local, _FILES_SIZED):
        checksum = zlib.crc32(b"%d" % stamp_of(os.fspath(file)).size, checksum)
    for file in _spread(local, _FILES_READ):
        checksum = _read(file, checksum)
    shown = ", ".join(names[:_NAMES]) + (", ..." if len(names) > _NAMES else "")
    return Fingerprint(samples, f"{format_count(len(names), 'file')} ({shown})", checksum)


def of_arrays(arrays: Sequence[Any], samples: int) -> Fingerprint:
    """The fingerprint of arrays or tensors with the samples along their first axis."""
    checksum = 0
    for array in arrays:
        rows = np.unique(np.linspace(0, samples - 1, _ROWS, dtype=np.int64))
        some = np.stack([np.asarray(array[int(row)]) for row in rows])
        checksum = zlib.crc32(repr(some.tolist()).encode() if some.dtype.hasobject else some.tobytes(), checksum)
    shapes = ", ".join(str(tuple(array.shape)) for array in arrays)
    return Fingerprint(samples, f"arrays of the shapes {shapes}", zlib.crc32(shapes.encode(), checksum))


def _name(file: str, folder: str | os.PathLike[str]) -> str:
    if is_remote(file):
        return file
    return os.path.relpath(file, folder) if folder else os.path.basename(file)


def _spread(files: Sequence[Any], most: int) -> list[Any]:
    """At most so many of the files, with the first and the last."""
    return [files[place] for place in np.unique(np.linspace(0, len(files) - 1, most, dtype=np.int64))] if files else []


def _read(file: str | os.PathLike[str], checksum: int) -> int:
    try:
        with open(file, "rb") as opened:
            size = os.fstat(opened.fileno()).st_size
            for start in (0, size // 2, size - _BYTES):
                checksum = zlib.crc32(os.pread(opened.fileno(), _BYTES, max(start, 0)), checksum)
    except OSError as error:
        raise DataError(f"Cannot read {file}: {error.strerror or error}.") from error
    return checksum
