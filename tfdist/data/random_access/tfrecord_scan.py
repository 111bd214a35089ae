"""Scan of a TFRecord file: where its records lie, and which of them are corrupt.

A record is its length (uint64), the length's masked CRC-32C (uint32), the bytes, their masked CRC-32C (uint32), all
little-endian: https://www.tensorflow.org/tutorials/load_data/tfrecord#tfrecords_format_details.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray

from tfdist.data.random_access.crc32c import masked_crc32c, masked_crc32c_of_each, masked_crc32c_of_lengths
from tfdist.data.random_access.file_scans import CorruptReason, ScannedRecords
from tfdist.errors import DataError

CHUNK = 1 << 20
"""Bytes that are read at a time."""

SKIP_CHUNK = 1 << 12
"""The same, where records are larger than a chunk and only their headers are read."""

_GROWTH = 4
"""The multiple of the last piece that is read next, where a smaller piece than a chunk led to nothing special."""

HEADER_BYTES = 12
FOOTER_BYTES = 4
FRAME_BYTES = HEADER_BYTES + FOOTER_BYTES
_HEADER = np.dtype([("length", "<u8"), ("crc", "<u4")])
_LENGTH = struct.Struct("<Q")
_CRC = struct.Struct("<I")
_COMPRESSED = {b"\x1f\x8b": "GZIP", b"\x78\x01": "ZLIB", b"\x78\x5e": "ZLIB", b"\x78\x9c": "ZLIB", b"\x78\xda": "ZLIB"}


def scan_tfrecord(file: IO[bytes], path: Path, size: int, verify: bool) -> Iterator[ScannedRecords]:
    """Follows the headers from record to record.

    Args:
        file: Open for reading bytes.
        path: Its name, for the errors.
        size: The size of the file in bytes.
        verify: Whether to check the records' data and to continue after a damaged length, at the next header that is
            whole. Without it only headers are checked, and of large records nothing else is read.

    Yields:
        The records of each chunk; what cannot be read as records counts as one that is corrupt.

    Raises:
        DataError: The file is compressed or no TFRecord file; without `verify`, also where it is damaged or truncated.
        OSError: It cannot be read.
    """
    scan = _Scan(file.fileno(), path, size, verify)
    position, number, step = 0, 0, CHUNK
    while position < size:
        data = os.pread(scan.descriptor, step, position)
        headers, after = _walk(data)
        starts, corrupt, end = scan.check(data, headers, position, after, number)
        yield ScannedRecords(starts, end + HEADER_BYTES, corrupt)
        number += len(starts)
        # After a record that is larger than a chunk others may follow, whose data need not be read to pass them; after
        # damage there may be more of it soon, which must not cost a whole chunk each time.
        is_large = end - position > 2 * CHUNK and not verify
        is_damaged = any(reason is CorruptReason.LENGTH for _, reason in corrupt)
        step = min(SKIP_CHUNK, CHUNK) if is_large or is_damaged else min(CHUNK, _GROWTH * step)
        position = end


@dataclass(frozen=True)
class _Scan:
    """One file being scanned; see `scan_tfrecord`."""

    descriptor: int
    path: Path
    size: int
    verify: bool

    def check(
        self, data: bytes, headers: list[int], position: int, after: int, number: int
    ) -> tuple[NDArray[np.int64], list[tuple[int, CorruptReason]], int]:
        """The starts of the records in a chunk, which of them are corrupt, and where the next header is.

        Args:
            data: The chunk.
            headers: Where in it the headers are, if all of them are right.
            position: Where the chunk begins in the file.
            after: The place of the header after those, in the chunk or after it.
            number: The number of the chunk's first record.
        """
        places = np.array(headers, np.int64)
        bad = _first_wrong_length(data, places)
        if bad is not None:
            return self._damaged(data, places[: bad + 1], position, number)
        if position + after > self.size or not headers:
            reason = CorruptReason.TRUNCATED
            if not headers:
                places = np.zeros(1, np.int64)
            self._stop(reason, number + len(places) - 1, position + int(places[-1]))
            corrupt = [*self._wrong_data(data, places[:-1], position), (len(places) - 1, reason)]
            return places + position + HEADER_BYTES, corrupt, self.size
        return places + position + HEADER_BYTES, self._wrong_data(data, places, position), position + after

    def _damaged(
        self, data: bytes, places: NDArray[np.int64], position: int, number: int
    ) -> tuple[NDArray[np.int64], list[tuple[int, CorruptReason]], int]:
        """Like `check`, where the last of the headers at `places` is damaged."""
        where = position + int(places[-1])
        if number + len(places) == 1:
            _refuse_other_kinds(self.path, data[:2])
        self._stop(CorruptReason.LENGTH, number + len(places) - 1, where)
        end = self._next_header(where + 1)
        if end == self.size and number + len(places) == 1:
            raise DataError(f"{self.path}: no record was found in it. Expected a TFRecord file.")
        corrupt = [*self._wrong_data(data, places[:-1], position), (len(places) - 1, CorruptReason.LENGTH)]
        return places + position + HEADER_BYTES, corrupt, end

    def _stop(self, reason: CorruptReason, record: int, offset: int) -> None:
        if self.verify:
            return
        hint = " It may not be a TFRecord file." if record == 0 and reason is CorruptReason.LENGTH else ""
        remedy = " Write the file again, or leave corrupt records out with on_corrupt: skip."
        raise DataError(reason.message(self.path, record, offset) + (hint or remedy))

    def _wrong_data(self, data: bytes, places: NDArray[np.int64], position: int) -> list[tuple[int, CorruptReason]]:
        """The records whose data is corrupt, among those whose headers stand at `places` of a chunk."""
        if not self.verify or not len(places):
            return []
        starts = places + HEADER_BYTES
        lengths = _headers_at(data, places)["length"].astype(np.int64)
        inside = int(np.count_nonzero(starts + lengths + FOOTER_BYTES <= len(data)))
        stored = _unaligned(data, (starts + lengths)[:inside], FOOTER_BYTES).view("<u4").reshape(-1)
        right = masked_crc32c_of_each(data, starts[:inside], lengths[:inside]) == stored
        wrong = [(place, CorruptReason.DATA) for place in np.flatnonzero(~right).tolist()]
        if inside < len(places) and not self._is_whole(position + int(starts[-1]), int(lengths[-1])):
            wrong.append((len(places) - 1, CorruptReason.DATA))
        return wrong

    def _is_whole(self, start: int, length: int) -> bool:
        """Checks the data of a record that is not in one chunk."""
        framed = read_exactly(self.descriptor, length + FOOTER_BYTES, start)
        return framed[length:] == _CRC.pack(masked_crc32c(framed[:length]))

    def _next_header(self, position: int) -> int:
        """The first place from `position` on with a whole header whose record ends inside the file."""
        step = min(SKIP_CHUNK, CHUNK)
        while position + FRAME_BYTES <= self.size:
            data = os.pread(self.descriptor, step, position)
            step = min(CHUNK, _GROWTH * step)
            windows = np.lib.stride_tricks.sliding_window_view(np.frombuffer(data, np.uint8), HEADER_BYTES)
            if not len(windows):
                break
            headers = np.ascontiguousarray(windows).reshape(-1).view(_HEADER)
            room = np.uint64(self.size - position - FRAME_BYTES)
            fitting = np.flatnonzero(headers["length"] <= room)
            fitting = fitting[headers["length"][fitting].astype(np.int64) + fitting <= int(room)]
            right = masked_crc32c_of_lengths(headers["length"][fitting]) == headers["crc"][fitting]
            if right.any():
                return position + int(fitting[right.argmax()])
            position += len(windows)
        return self.size


def read_exactly(descriptor: int, size: int, offset: int) -> bytes:
    """Returns `size` bytes of a file, or fewer where it ends: one read of the system gives at most 2 GiB."""
    data = os.pread(descriptor, size, offset)
    if len(data) in (0, size):
        return data
    return data + read_exactly(descriptor, size - len(data), offset + len(data))


def _walk(data: bytes) -> tuple[list[int], int]:
    """The places of the headers in a chunk, and of the next one, in it or after it."""
    headers: list[int] = []
    position, last = 0, len(data) - HEADER_BYTES
    unpack = _LENGTH.unpack_from
    while position <= last:
        headers.append(position)
        position += unpack(data, position)[0] + FRAME_BYTES
    return headers, position


def _first_wrong_length(data: bytes, places: NDArray[np.int64]) -> int | None:
    headers = _headers_at(data, places)
    wrong = masked_crc32c_of_lengths(headers["length"]) != headers["crc"]
    return int(wrong.argmax()) if wrong.any() else None


def _headers_at(data: bytes, places: NDArray[np.int64]) -> NDArray[np.void]:
    return _unaligned(data, places, HEADER_BYTES).view(_HEADER).reshape(-1)


def _unaligned(data: bytes, places: NDArray[np.int64], size: int) -> NDArray[np.uint8]:
    """The bytes at `places` [k] of `data`, uint8 of shape [k, size]."""
    return np.ascontiguousarray(np.frombuffer(data, np.uint8)[places[:, np.newaxis] + np.arange(size)])


def _refuse_other_kinds(path: Path, beginning: bytes) -> None:
    kind = _COMPRESSED.get(beginning)
    if kind:
        raise DataError(
            f"{path} looks {kind}-compressed. Expected an uncompressed TFRecord file, whose records can be read in any "
            "order, or a source whose files are compressed alike. Write it with tf.io.TFRecordWriter without options."
        )
