"""Index files: one for each data file, hidden next to it or, where that folder cannot be written, in a cache.

A file holds a header, the starts of the records and the corrupt records, all little-endian. It is written under another
name and renamed, so that it is whole or absent, and workers that build the same one do not disturb each other.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import struct
import tempfile
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray

from tfdist.data.files.file_facts import FileStamp
from tfdist.rundir.regular_files import open_regular
from tfdist.rundir.temp_names import remove_all_abandoned, temp_path

MAGIC = b"tfdix\x00\x00\x02"
"""The last byte is the version of the format."""

_FIELDS = struct.Struct("<8s4sIQqQQI")
_CHECKSUM = struct.Struct("<I")
HEADER_BYTES = 64
CORRUPT = np.dtype([("record", "<i8"), ("reason", "<i8")])
"""A corrupt record: its number in the file, and a `Reason`."""

SUFFIX = ".tfindex"


@dataclass(frozen=True)
class IndexHeader:
    """The header of an index file.

    Attributes:
        kind: The kind of the records, in four letters.
        verified: Whether the records' data was checked, too.
        stamp: The stamp of the data file when it was read.
        records: The number of records, with the corrupt ones.
        corrupt: The number of corrupt records.
        checksum: The CRC-32C of what follows the header.
    """

    kind: bytes
    verified: bool
    stamp: FileStamp
    records: int
    corrupt: int
    checksum: int

    @property
    def file_bytes(self) -> int:
        """The size of the whole file."""
        return HEADER_BYTES + 8 * (self.records + 1) + CORRUPT.itemsize * self.corrupt

    def to_bytes(self) -> bytes:
        """The header as it stands in the file."""
        fields = _FIELDS.pack(
            MAGIC,
            self.kind,
            self.verified,
            self.stamp.size,
            self.stamp.modified_ns,
            self.records,
            self.corrupt,
            self.checksum,
        )
        return (fields + _CHECKSUM.pack(zlib.crc32(fields))).ljust(HEADER_BYTES, b"\0")

    @classmethod
    def from_bytes(cls, data: bytes) -> IndexHeader | None:
        """The header in `data`; None where there is none, or it is damaged or of another version."""
        fields = data[: _FIELDS.size]
        if len(data) < HEADER_BYTES or not data.startswith(MAGIC):
            return None
        if _CHECKSUM.unpack_from(data, _FIELDS.size)[0] != zlib.crc32(fields):
            return None
        _, kind, verified, size, modified_ns, records, corrupt, checksum = _FIELDS.unpack(fields)
        return cls(kind, bool(verified), FileStamp(size, modified_ns), records, corrupt, checksum)


def places(path: Path, cache: Path | None = None) -> tuple[Path, ...]:
    """The places of a data file's index: next to it, and in the cache where there is one."""
    near, cache = path.with_name(f".{path.name}{SUFFIX}"), cache or default_cache()
    name = hashlib.sha256(os.fsencode(path.absolute())).hexdigest()[:32] + SUFFIX
    return (near,) if cache is None else (near, cache / name)


def default_cache() -> Path | None:
    """The folder for indices of data in folders that cannot be written; None for a user without a home."""
    try:
        return Path("~/.cache/tfdist/index").expanduser()
    except RuntimeError:
        return None


def read_header(path: Path) -> IndexHeader | None:
    """The header of an index file; None where there is no file, or it is not whole."""
    try:
        with open_regular(path, follows_link=True) as file:
            header = IndexHeader.from_bytes(file.read(HEADER_BYTES))
            return header if header and os.fstat(file.fileno()).st_size == header.file_bytes else None
    except OSError:
        return None


def map_arrays(file: IO[bytes], header: IndexHeader) -> tuple[NDArray[np.int64], NDArray[np.void]]:
    """The starts, int64 [records + 1], mapped into memory, and the corrupt records, `CORRUPT` [corrupt]."""
    starts = np.memmap(file, "<i8", "r", HEADER_BYTES, (header.records + 1,))
    file.seek(HEADER_BYTES + starts.nbytes)
    return starts, np.frombuffer(file.read(CORRUPT.itemsize * header.corrupt), CORRUPT)


@functools.cache
def _tidy(folder: Path, suffix: str) -> None:
    """Removes what killed processes left in a folder; once, as it may hold the indices of many files."""
    remove_all_abandoned(folder, suffix)


class NotKeptError(OSError):
    """An index was written, and could not get its name: the data is not to blame."""


def _settle(file: IO[bytes], temporary: Path, place: Path) -> None:
    try:
        file.flush()
        os.fsync(file.fileno())
        os.replace(temporary, place)
    except OSError as error:
        raise NotKeptError(error.errno, error.strerror, str(place)) from error


@contextlib.contextmanager
def writing(candidates: Iterable[Path]) -> Iterator[tuple[IO[bytes], Path | None]]:
    """Yields a file to write an index into, and its place: the first of `candidates` that can be written.

    Where none can be, the file has no name and lives as long as it is open, and the place is None. At a clean exit the
    index is in its place. What killed processes left there is removed.

    Raises:
        NotKeptError: It could not get its name there, as on a network file system that is out of order.
    """
    for place in candidates:
        temporary = temp_path(place)
        _tidy(place.parent, place.suffix)
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            file = open(temporary, "x+b")  # noqa: SIM115 - closed below
        except OSError:
            continue
        with file:
            try:
                yield file, place
                _settle(file, temporary, place)
            except BaseException:
                temporary.unlink(missing_ok=True)
                raise
        return
    file = tempfile.TemporaryFile(suffix=SUFFIX)  # noqa: SIM115 - the mapping of it lives on
    yield file, None
    file.flush()
