"""TFRecord files: reading their records in any order, with their checksums."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tfdist.data.crc32c import masked_crc32c_of_each
from tfdist.data.record_reader import Block, RecordReader
from tfdist.data.records import OnCorrupt, Records
from tfdist.data.scanning import Reason
from tfdist.data.tfrecord_scan import FOOTER_BYTES, HEADER_BYTES
from tfdist.errors import DataError


class TFRecordReader:
    """Random access to the records of TFRecord files."""

    def __init__(self, paths: tuple[Path, ...], on_corrupt: OnCorrupt = "stop") -> None:
        """Finds the records; see `Records.open` for the errors."""
        self.records = Records.open(paths, "tfrecord", on_corrupt=on_corrupt)
        self._reader = RecordReader(self.records)

    def __len__(self) -> int:
        return len(self.records)

    def read(self, indices: NDArray[np.int64]) -> Block:
        """Returns the records `indices` [k].

        Raises:
            DataError: A record's checksum is wrong, or its file can no longer be read or has changed.
        """
        data, starts, framed = self._reader.read(indices, after=FOOTER_BYTES)
        sizes = framed - FOOTER_BYTES
        footers = np.frombuffer(data, np.uint8)[(starts + sizes)[:, np.newaxis] + np.arange(FOOTER_BYTES)]
        wrong = masked_crc32c_of_each(data, starts, sizes) != footers.view("<u4").reshape(-1)
        if wrong.any():
            raise self._corrupt(indices[wrong.argmax()][np.newaxis])
        return Block(data, starts, sizes)

    def places(self, indices: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Where records are, as `names` says it: places in `records.paths`, numbers in the file, both int64 [k]."""
        spans = self.records.locate(indices)
        return spans.files, spans.records

    def names(self, indices: NDArray[np.int64]) -> list[str]:
        """Names records for errors: each one's file and its place in it, counted from 0."""
        files, records = self.places(indices)
        pairs = zip(files.tolist(), records.tolist(), strict=True)
        return [f"{self.records.paths[number]}, record {record}" for number, record in pairs]

    def _corrupt(self, index: NDArray[np.int64]) -> DataError:
        spans = self.records.locate(index)
        (number,), (record,), (start,) = spans.files.tolist(), spans.records.tolist(), spans.offsets.tolist()
        self._reader.check_unchanged(number)
        return DataError(Reason.DATA.told(self.records.paths[number], record, start - HEADER_BYTES))
