"""Index of a file: where its records lie, found once, kept in an index file and mapped into memory.

    index = open_index(Path("train-00.tfrecord"))
    offsets, sizes = index.spans(np.array([7, 3]))

Nothing here imports TensorFlow.
"""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Literal

import numpy as np
from numpy.typing import NDArray

from tfdist.data.files.file_facts import FileStamp
from tfdist.data.random_access import index_files
from tfdist.data.random_access.crc32c import extended
from tfdist.data.random_access.file_scans import CorruptReason, ScannedRecords, scan_lines, scan_tar
from tfdist.data.random_access.index_files import CORRUPT, HEADER_BYTES, IndexHeader
from tfdist.data.random_access.tfrecord_scan import FRAME_BYTES, scan_tfrecord
from tfdist.data.random_access.tfrecord_scan import HEADER_BYTES as TFRECORD_HEADER_BYTES
from tfdist.errors import DataError
from tfdist.rundir.regular_files import open_regular

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_CHECKED_TOGETHER = 1 << 20
"""Starts of a kept index that are checked at a time."""

RecordKind = Literal["tfrecord", "lines", "tar"]


@dataclass(frozen=True)
class _Format:
    """The way in which the records of a kind are found.

    Attributes:
        code: The kind in the index file.
        header: Bytes before a record's start that belong to it.
        gap: Bytes between the end of a record and the start of the next.
        scan: From an open file, its name, its size and whether to verify its data to its records, chunk by chunk.
    """

    code: bytes
    header: int
    gap: int
    scan: Callable[[IO[bytes], Path, int, bool], Iterator[ScannedRecords]]


_FORMATS: Mapping[str, _Format] = {
    "tfrecord": _Format(b"tfrc", TFRECORD_HEADER_BYTES, FRAME_BYTES, scan_tfrecord),
    "lines": _Format(b"line", 0, 0, scan_lines),
    "tar": _Format(b"tarw", 0, 0, scan_tar),
}


@dataclass(frozen=True)
class RecordIndex:
    """The places of the records of one file.

    Attributes:
        path: The data file.
        kind: The kind of its records.
        stamp: Its size and time when it was indexed.
        verified: Whether the records' data was checked, too.
        starts: int64 [records + 1], bytes; the last one closes the last record. May be mapped from a file.
        corrupt: The corrupt records, by number, with their `CorruptReason`: `index_files.CORRUPT` [corrupt].
        file: Where the index is kept; None where nothing could be written.
    """

    path: Path
    kind: RecordKind
    stamp: FileStamp
    verified: bool
    starts: NDArray[np.int64]
    corrupt: NDArray[np.void]
    file: Path | None

    def __len__(self) -> int:
        """Returns how many records there are, corrupt ones included."""
        return len(self.starts) - 1

    @property
    def gap(self) -> int:
        """Bytes between the end of a record and the start of the next."""
        return _FORMATS[self.kind].gap

    def spans(self, records: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Returns where records lie.

        Args:
            records: Their numbers in the file, [k], each below `len(self)`.

        Returns:
            Offsets and sizes, both int64 [k], in bytes; of a TFRecord, those of its data without the frame. A line's
            size may count the line's end and empty lines after it.
        """
        offsets = self.starts[records]
        return np.asarray(offsets), np.asarray(self.starts[records + 1] - offsets - self.gap)

    def problems(self) -> Iterator[str]:
        """One sentence for each corrupt record, with its file, number and offset."""
        for number, reason in zip(self.corrupt["record"].tolist(), self.corrupt["reason"].tolist(), strict=True):
            offset = int(self.starts[number]) - _FORMATS[self.kind].header
            yield CorruptReason(reason).message(self.path, number, offset)


def open_index(
    path: str | os.PathLike[str],
    kind: RecordKind = "tfrecord",
    *,
    verify: bool = False,
    keep: bool = True,
    cache: Path | None = None,
) -> RecordIndex:
    """Opens the index of a data file: the one that is kept if it is fresh, else a new one, which is then kept.

    An index is fresh when the data file has the size and the time of modification that it had when it was indexed.

    Args:
        path: An uncompressed TFRecord or tar file, or a text file of lines.
        kind: `tfrecord`, `lines`: those that are not empty, or `tar`: samples of the WebDataset layout.
        verify: Whether to check the records' data, too. Corrupt records, also those whose length is damaged and those
            that are cut off by the end of the file, are then no error but stand in `corrupt`.
        keep: Whether to write a new index to the disk: next to the data file, or else in the cache.
        cache: The folder of the cache; by default `~/.cache/tfdist/index`.

    Raises:
        DataError: The file cannot be read, is compressed or of another kind, or changed while it was read, or there is
            no room for its index; without `verify`, also a damaged length and a truncated file. The text names the
            record and its offset.
    """
    path = Path(path)
    candidates = index_files.places(path, cache)
    try:
        stamp = FileStamp.of(os.stat(path))
        for place in candidates:
            found = _kept(path, kind, stamp, verify, place)
            if found is not None:
                return found
        return _build_somewhere(path, kind, verify, candidates if keep else ())
    except OSError as error:
        raise DataError(f"Cannot read {path}: {error.strerror or error}.") from error


def _kept(path: Path, kind: RecordKind, stamp: FileStamp, verify: bool, place: Path) -> RecordIndex | None:
    header = index_files.read_header(place)
    if header is None or header.kind != _FORMATS[kind].code or header.stamp != stamp:
        return None
    if verify and not header.verified:
        return None
    try:
        with open_regular(place, follows_link=True) as file:
            if IndexHeader.from_bytes(file.read(HEADER_BYTES)) != header:
                return None  # another process has just replaced it
            starts, corrupt = index_files.map_arrays(file, header)
            if not _is_sound(header, starts, corrupt, _FORMATS[kind]):
                return None
            return RecordIndex(path, kind, stamp, header.verified, starts, corrupt, place)
    except OSError:
        return None


def _is_sound(header: IndexHeader, starts: NDArray[np.int64], corrupt: NDArray[np.void], form: _Format) -> bool:
    """Returns whether an index is as it was written and leads nowhere but into its file. Reads all of it."""
    if starts[0] < form.header or starts[-1] > header.stamp.size + form.gap or not _are_numbers(header, corrupt):
        return False
    checksum, negative = 0, [np.empty(0, np.int64)]
    for first in range(0, len(starts), _CHECKED_TOGETHER):
        part = np.array(starts[first : first + _CHECKED_TOGETHER + 1])
        checksum = extended(checksum, part[:_CHECKED_TOGETHER].tobytes())
        if (part[1:] <= part[:-1]).any():
            return False
        negative.append(np.flatnonzero(part[1:] - part[:-1] < form.gap) + first)
    # What is left of a record that is cut off may be smaller than its frame.
    are_left_out = np.isin(np.concatenate(negative), corrupt["record"]).all()
    return bool(are_left_out) and extended(checksum, corrupt.tobytes()) == header.checksum


def _are_numbers(header: IndexHeader, corrupt: NDArray[np.void]) -> bool:
    """Returns whether corrupt records are records of the file, in order, with reasons that there are."""
    numbers, reasons = corrupt["record"], corrupt["reason"]
    in_order = bool((numbers[1:] > numbers[:-1]).all())
    return in_order and bool(
        ((numbers >= 0) & (numbers < header.records) & np.isin(reasons, [*map(int, CorruptReason)])).all()
    )


def _build_somewhere(path: Path, kind: RecordKind, verify: bool, candidates: tuple[Path, ...]) -> RecordIndex:
    """Builds the index where there is room for it, in the end in a file without a name."""
    try:
        return _build(path, kind, verify, candidates)
    except OSError as error:
        if error.errno not in _FULL and not (candidates and isinstance(error, index_files.NotKeptError)):
            raise
        if not candidates:
            raise DataError(
                f"There is no room for the index of {path}: {error.strerror} in {tempfile.gettempdir()}, nor where it "
                "is kept. Make room, or set TMPDIR to a folder with room."
            ) from error
        return _build_somewhere(path, kind, verify, candidates[1:])


def _build(path: Path, kind: RecordKind, verify: bool, candidates: tuple[Path, ...]) -> RecordIndex:
    form = _FORMATS[kind]
    with open(path, "rb") as data, index_files.writing(candidates) as (file, place):
        stamp = FileStamp.of(os.fstat(data.fileno()))
        file.write(bytes(HEADER_BYTES))
        records, corrupt, end, checksum = 0, [], form.gap, 0

        def write(content: bytes) -> None:
            nonlocal checksum
            file.write(content)
            checksum = extended(checksum, content)

        for found in form.scan(data, path, stamp.size, verify):
            write(found.starts.astype("<i8").tobytes())
            corrupt += [(records + number, reason) for number, reason in found.corrupt]
            records, end = records + len(found.starts), found.end
        write(np.array([end], "<i8").tobytes())
        write(np.array(corrupt, CORRUPT).tobytes())
        if FileStamp.of(os.fstat(data.fileno())) != stamp:
            raise DataError(f"{path} changed while it was indexed. Wait until it is written, and start again.")
        header = IndexHeader(form.code, verify, stamp, records, len(corrupt), checksum)
        file.seek(0)
        file.write(header.to_bytes())
        file.flush()
        return RecordIndex(path, kind, stamp, verify, *index_files.map_arrays(file, header), place)
