"""TFRecord files: where their records lie, and reading them with their checksums.

A record is its length (uint64), the length's masked CRC-32C (uint32), the bytes, their masked CRC-32C (uint32), all
little-endian: https://www.tensorflow.org/tutorials/load_data/tfrecord#tfrecords_format_details.
"""

from __future__ import annotations

import mmap
import os
import struct
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tfdist.data.crc32c import masked_crc32c_of_each, masked_crc32c_of_lengths
from tfdist.data.files import RecordReader, Records, Spans
from tfdist.errors import DataError

_HEADER = 12
_FOOTER = 4
_LENGTH = struct.Struct("<Q")
_CRC = struct.Struct("<I")
_COMPRESSED = {b"\x1f\x8b": "GZIP", b"\x78\x01": "ZLIB", b"\x78\x5e": "ZLIB", b"\x78\x9c": "ZLIB", b"\x78\xda": "ZLIB"}


def index_tfrecord(path: Path) -> Spans:
    """Returns where the records of a TFRecord file lie, by reading their headers alone.

    Raises:
        DataError: The file is compressed, truncated or no TFRecord file; the text names the record.
        OSError: The file cannot be read.
    """
    size = os.path.getsize(path)
    if not size:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        starts, lengths, end = _walk(data)
        stored = [_CRC.unpack_from(data, start + 8)[0] for start in starts]
        beginning = data[:2]
    wrong = masked_crc32c_of_lengths(np.array(lengths, np.uint64)) != np.array(stored, np.uint32)
    if wrong.any():
        raise _damaged(path, int(wrong.argmax()), beginning)
    if end != size:
        record = len(starts) - (end > size)
        raise DataError(f"{path} is truncated: it ends inside record {record}. Write the file again.")
    return np.array(starts, np.int64) + _HEADER, np.array(lengths, np.int64)


def _walk(data: mmap.mmap) -> tuple[list[int], list[int], int]:
    """Follows the headers from record to record. The last record may reach past the end of a damaged file."""
    starts: list[int] = []
    lengths: list[int] = []
    position, last_header = 0, len(data) - _HEADER
    while position <= last_header:
        (length,) = _LENGTH.unpack_from(data, position)
        starts.append(position)
        lengths.append(length)
        position += _HEADER + length + _FOOTER
    return starts, lengths, position


def _damaged(path: Path, record: int, beginning: bytes) -> DataError:
    kind = _COMPRESSED.get(beginning)
    if record == 0 and kind:
        return DataError(
            f"{path} looks {kind}-compressed. Expected an uncompressed TFRecord file, whose records can be read in any "
            "order. Write it with tf.io.TFRecordWriter without options."
        )
    hint = " It may not be a TFRecord file." if record == 0 else ""
    return DataError(f"{path}, record {record}: the length's checksum is wrong, the file is damaged.{hint}")


class TFRecordReader:
    """Random access to the records of TFRecord files."""

    def __init__(self, paths: tuple[Path, ...]) -> None:
        self.records = Records.index(paths, index_tfrecord)
        self._reader = RecordReader(self.records)
        self._paths = [str(path) for path in paths]

    def __len__(self) -> int:
        return len(self.records)

    def read(self, indices: NDArray[np.int64]) -> NDArray[np.object_]:
        """Returns the bytes of the records `indices` [k], as objects of shape [k].

        Raises:
            DataError: A record's checksum is wrong, or its file can no longer be read.
        """
        framed = self._reader.read(indices, after=_FOOTER)
        records = np.empty(len(framed), np.object_)
        records[:] = [frame[:-_FOOTER] for frame in framed]
        stored = np.frombuffer(b"".join(frame[-_FOOTER:] for frame in framed), "<u4")
        wrong = masked_crc32c_of_each(records.tolist()) != stored
        if wrong.any():
            (name,) = self.names(indices[wrong.argmax()][np.newaxis])
            raise DataError(f"{name}: the data's checksum is wrong, the file is damaged.")
        return records

    def names(self, indices: NDArray[np.int64]) -> list[str]:
        """Names records for errors: each one's file and its place in it, counted from 0."""
        numbers = self.records.files_of(indices)
        places = indices - self.records.first[numbers]
        pairs = zip(numbers.tolist(), places.tolist(), strict=True)
        return [f"{self._paths[number]}, record {place}" for number, place in pairs]
