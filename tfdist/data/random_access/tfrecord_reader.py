"""Reader of TFRecord files: any record by its number, with its checksum verified.

Checksums of many TFRecord records, verified at once.

Calling the library for each small record takes twice as long as `all_whole`, which combines the records into one piece
of data and computes one CRC of it. Data followed by its own CRC always has the same CRC, the residue, and a CRC is
linear. So the combined data has the residue as its CRC if every record is intact; if one is not, it has another CRC
but for a chance of 1 in 2**32.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tfdist.data.ops.prefetch import GROUP_BYTES, GROUP_RECORDS, PARALLEL_GROUPS, ReadLimits
from tfdist.data.random_access.crc32c import crc32c, masked_crc32c_of_each, unmasked
from tfdist.data.random_access.file_scans import CorruptReason
from tfdist.data.random_access.numbered_records import OnCorrupt, Records
from tfdist.data.random_access.record_reader import BufferPool, RecordBlock, RecordReader
from tfdist.data.random_access.tfrecord_scan import FOOTER_BYTES, HEADER_BYTES
from tfdist.errors import DataError

CHECKED_TOGETHER_BYTES = 8 << 10
"""Records with a smaller mean size are verified together, larger ones one by one, as is faster."""
_WORD = np.arange(4)


class TFRecordReader:
    """Random access to the records of TFRecord files."""

    def __init__(
        self,
        paths: tuple[Path, ...],
        on_corrupt: OnCorrupt = "stop",
        spans: Sequence[tuple[int, int]] | None = None,
    ) -> None:
        """Finds the records; see `Records.open` for the errors.

        Args:
            paths: The files.
            on_corrupt: See `Records.open`.
            spans: Of each file, how many records are passed over first, and how many are taken; None for all.
        """
        self.records = Records.open(paths, "tfrecord", on_corrupt=on_corrupt)
        self.records_in_files: list[int] = self.records.counts.tolist()
        """The records of each file, with those that `spans` leaves out."""
        if spans is not None:
            self.records = self.records.within(spans)
        self._reader = RecordReader(self.records)
        self._buffers = BufferPool()

    def __len__(self) -> int:
        return len(self.records)

    @property
    def pace(self) -> ReadLimits:
        """The limits for calls of `read`."""
        # Each `os.pread` releases and takes Python's lock: two threads that do so take longer than one.
        calls = PARALLEL_GROUPS if self._reader.reads_many else 1
        return ReadLimits(min(GROUP_RECORDS, int(GROUP_BYTES / max(self.records.mean_bytes, 1))), calls)

    def read(self, indices: NDArray[np.int64]) -> RecordBlock:
        """Returns the records `indices` [k].

        Raises:
            DataError: A record's checksum is wrong, or its file can no longer be read or has changed.
        """
        data, starts, framed = self._reader.read(indices, after=FOOTER_BYTES)
        sizes = framed - FOOTER_BYTES
        if (corrupt := self._first_corrupt(data, starts, sizes)) is not None:
            raise self._corrupt(indices[corrupt : corrupt + 1])
        return RecordBlock(data, starts, sizes)

    def _first_corrupt(self, data: bytes, starts: NDArray[np.int64], sizes: NDArray[np.int64]) -> int | None:
        if len(sizes) and sizes.mean() < CHECKED_TOGETHER_BYTES:
            with self._buffers.lent(len(data)) as scratch:
                scratch[:] = np.frombuffer(data, np.uint8)
                if all_whole(scratch, starts, sizes):
                    return None
        return first_corrupt(data, starts, sizes)

    def places(self, indices: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The place of each record's file in `records.paths`, and its number in the file, both int64 [k]."""
        spans = self.records.locate(indices)
        return spans.files, spans.records

    def names(self, indices: NDArray[np.int64]) -> list[str]:
        """Names records for errors: the file of each, and its number in it, counted from 0."""
        files, records = self.places(indices)
        pairs = zip(files.tolist(), records.tolist(), strict=True)
        return [f"{self.records.paths[number]}, record {record}" for number, record in pairs]

    def _corrupt(self, index: NDArray[np.int64]) -> DataError:
        spans = self.records.locate(index)
        (number,), (record,), (start,) = spans.files.tolist(), spans.records.tolist(), spans.offsets.tolist()
        self._reader.check_unchanged(number)
        return DataError(CorruptReason.DATA.message(self.records.paths[number], record, start - HEADER_BYTES))


def all_whole(data: NDArray[np.uint8], starts: NDArray[np.int64], sizes: NDArray[np.int64]) -> bool:
    """Returns whether all records match their checksums.

    Args:
        data: Contains the records, each followed by its footer. It is overwritten.
        starts: The offset of each record, [k]. A record may be listed twice; otherwise records do not overlap.
        sizes: The size of each record in bytes, without the footer, [k].
    """
    if not len(starts):
        return True
    starts, kept = np.unique(starts, return_index=True)
    ends = starts + sizes[kept]
    data[ends[:, np.newaxis] + _WORD] = unmasked(_words(data, ends)).astype("<u4").view(np.uint8).reshape(-1, 4)
    gaps = starts[1:] - ends[:-1] - FOOTER_BYTES
    for gap in np.unique(gaps).tolist():
        after = starts[1:][gaps == gap, np.newaxis]
        data[after - np.arange(gap, 0, -1)] = 0
        # Brings the CRC register from its state after the residue and the gap back to the state that a CRC starts from.
        back = crc32c(np.zeros(FOOTER_BYTES + gap, np.uint8))
        data[after + _WORD] ^= np.frombuffer(back.to_bytes(4, "little"), np.uint8)
    return crc32c(data[starts[0] : ends[-1] + FOOTER_BYTES]) == crc32c(bytes(FOOTER_BYTES))


def first_corrupt(data: bytes, starts: NDArray[np.int64], sizes: NDArray[np.int64]) -> int | None:
    """Computes the checksum of each record; see `all_whole` for the arguments.

    Returns:
        The position in `starts` of the first record that does not match its checksum, or None if all match.
    """
    if not len(starts):
        return None
    wrong = masked_crc32c_of_each(data, starts, sizes) != _words(np.frombuffer(data, np.uint8), starts + sizes)
    return int(wrong.argmax()) if wrong.any() else None


def _words(data: NDArray[np.uint8], places: NDArray[np.int64]) -> NDArray[np.uint32]:
    """The little-endian 4-byte numbers at the offsets `places`, uint32 [k]."""
    return data[places[:, np.newaxis] + _WORD].view("<u4").reshape(-1)
