"""Stream of the records of a TFRecord file, compressed or not, on any file system, from the first to the last.

The framing is that of `tfdist.data.random_access.tfrecord_scan`; a compressed file is one or several streams of GZIP or
ZLIB.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from typing import Literal

import numpy as np

from tfdist.data.files.remote_files import Readable, opened
from tfdist.data.random_access.crc32c import masked_crc32c_of_each, masked_crc32c_of_lengths
from tfdist.data.random_access.tfrecord_scan import FOOTER_BYTES, FRAME_BYTES, HEADER_BYTES
from tfdist.errors import DataError

TFRecordCompression = Literal["", "GZIP", "ZLIB"]
"""TensorFlow's name of a compression; empty for none."""

CHUNK = 1 << 18
"""Bytes that are read or decompressed at a time."""

_GZIP = b"\x1f\x8b"
_ZLIB = (b"\x78\x01", b"\x78\x5e", b"\x78\x9c", b"\x78\xda")
_MOST_RECORD_BYTES = 1 << 31
"""A message of protobuf has at most so many. All of a record is held in memory before its checksum is known."""

_EITHER = 32 + zlib.MAX_WBITS
"""Tells zlib to find out which of the two it is."""

_HEADER = struct.Struct("<QI")
_LENGTH = struct.Struct("<Q")


def compression_of(name: str) -> TFRecordCompression | None:
    """Returns how a TFRecord file is compressed; None for an empty file, which fits any compression.

    Raises:
        DataError: It cannot be read.
    """
    with opened(name) as file:
        beginning = file.read(HEADER_BYTES)
    if not beginning:
        return None
    if len(beginning) == HEADER_BYTES:
        length, checksum = _HEADER.unpack(beginning)
        # A record of a certain length begins like a compressed file, but with a valid header.
        if int(masked_crc32c_of_lengths(np.array([length], np.uint64))[0]) == checksum:
            return ""
    return "GZIP" if beginning[:2] == _GZIP else "ZLIB" if beginning[:2] in _ZLIB else ""


def read_records(name: str, compression: TFRecordCompression, verify: bool = True) -> Iterator[list[bytes]]:
    """Reads a file from its beginning to its end, some records at a time.

    Args:
        name: The file.
        compression: How it is compressed.
        verify: Whether to check the records' data, too, not only their lengths.

    Raises:
        DataError: The file cannot be read, is damaged or truncated; the text names it and the record.
    """
    number = 0
    with opened(name) as file:
        pieces = _decompressed(file) if compression else _raw(file)
        try:
            for records in _Frames(name, verify).of(pieces):
                number += len(records)
                yield records
        except zlib.error as error:
            raise DataError(
                f"{name}, at record {number} or soon after it: the {compression} data is damaged ({error}). Write the "
                "file again."
            ) from error
        except EOFError as error:
            raise DataError(
                f"{name} is truncated: its {compression} data ends at record {number} or soon after it. Write the file "
                "again."
            ) from error


def _raw(file: Readable) -> Iterator[bytes]:
    while chunk := file.read(CHUNK):
        yield chunk


def _decompressed(file: Readable) -> Iterator[bytes]:
    """The content of a file's streams, in pieces of at most `CHUNK` bytes; raises `zlib.error` and `EOFError`."""
    stream, begun = zlib.decompressobj(_EITHER), False
    while data := file.read(CHUNK):
        while data:
            piece = stream.decompress(data, CHUNK)
            data, begun = stream.unconsumed_tail, True
            if stream.eof:
                data, stream, begun = stream.unused_data, zlib.decompressobj(_EITHER), False
            if piece:
                yield piece
    while begun and (piece := stream.decompress(b"", CHUNK)):
        yield piece
    if begun and not stream.eof:
        raise EOFError


class _Frames:
    """Cuts the content of a file into records."""

    def __init__(self, name: str, verify: bool) -> None:
        self._name, self._verify = name, verify
        self._number = 0
        self._needed = 1

    def of(self, pieces: Iterator[bytes]) -> Iterator[list[bytes]]:
        """The records, some at a time."""
        waiting: list[bytes] = []
        size = 0
        for piece in pieces:
            waiting.append(piece)
            size += len(piece)
            # A record that is much larger than a piece is joined only once.
            if size >= self._needed:
                data = b"".join(waiting)
                records, end = self._cut(data)
                waiting, size = [data[end:]], len(data) - end
                if records:
                    yield records
        if size:
            raise DataError(
                f"{self._name} is truncated: it ends inside record {self._number}. Write the file again."
            )

    def _cut(self, data: bytes) -> tuple[list[bytes], int]:
        """The whole records at the beginning of `data`, and where they end."""
        starts, position, last = [], 0, len(data) - HEADER_BYTES
        unpack = _LENGTH.unpack_from
        while position <= last:
            starts.append(position)
            position += unpack(data, position)[0] + FRAME_BYTES
        # A wrong length makes all that follow wrong: the first of them is the damaged one.
        headers = np.array([_HEADER.unpack_from(data, start) for start in starts], np.uint64).reshape(-1, 2)
        wrong = masked_crc32c_of_lengths(headers[:, 0].copy()) != headers[:, 1]
        if wrong.any():
            raise self._corrupt(int(wrong.argmax()), "length")
        whole = len(starts) - (position > len(data))
        self._needed = HEADER_BYTES
        if whole < len(starts):
            self._needed = position - starts[whole]
            position = starts[whole]
            if self._needed > _MOST_RECORD_BYTES + FRAME_BYTES:
                raise DataError(
                    f"{self._name}, record {self._number + whole}: it claims {self._needed - FRAME_BYTES:,} bytes. "
                    f"Expected at most {_MOST_RECORD_BYTES:,}. Write the file again, with smaller records."
                )
        ends = [start - FOOTER_BYTES for start in [*starts[1:whole], position]][:whole]
        records = [data[start + HEADER_BYTES : end] for start, end in zip(starts[:whole], ends, strict=True)]
        if self._verify:
            self._check(data, starts[:whole], ends)
        self._number += whole
        return records, position

    def _check(self, data: bytes, starts: list[int], ends: list[int]) -> None:
        stored = np.frombuffer(b"".join([data[end : end + FOOTER_BYTES] for end in ends]), "<u4")
        begins = np.array(starts, np.int64) + HEADER_BYTES
        wrong = masked_crc32c_of_each(data, begins, np.array(ends, np.int64) - begins) != stored
        if wrong.any():
            raise self._corrupt(int(wrong.argmax()), "data")

    def _corrupt(self, place: int, what: str) -> DataError:
        hint = " It may not be a TFRecord file." if what == "length" and not self._number + place else ""
        return DataError(
            f"{self._name}, record {self._number + place}: the {what}'s checksum is wrong, the file is damaged.{hint}"
        )
