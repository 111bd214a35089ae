"""TFRecord files: reading their records in any order, with their checksums."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tfdist.data.crc32c import masked_crc32c_of_each
from tfdist.data.record_reader import RecordReader
from tfdist.data.records import OnCorrupt, Records
from tfdist.data.tfrecord_scan import FOOTER_BYTES
from tfdist.errors import DataError


class TFRecordReader:
    """Random access to the records of TFRecord files."""

    def __init__(self, paths: tuple[Path, ...], on_corrupt: OnCorrupt = "stop") -> None:
        """Finds the records; see `Records.open` for the errors."""
        self.records = Records.open(paths, "tfrecord", on_corrupt=on_corrupt)
        self._reader = RecordReader(self.records)

    def __len__(self) -> int:
        return len(self.records)

    def read(self, indices: NDArray[np.int64]) -> NDArray[np.object_]:
        """Returns the bytes of the records `indices` [k], as objects of shape [k].

        Raises:
            DataError: A record's checksum is wrong, or its file can no longer be read or has changed.
        """
        framed = self._reader.read(indices, after=FOOTER_BYTES)
        found = [frame[:-FOOTER_BYTES] for frame in framed]
        stored = np.frombuffer(b"".join([frame[-FOOTER_BYTES:] for frame in framed]), "<u4")
        wrong = masked_crc32c_of_each(found) != stored
        if wrong.any():
            raise self._corrupt(indices[wrong.argmax()][np.newaxis])
        records = np.empty(len(found), np.object_)
        records[:] = found
        return records

    def names(self, indices: NDArray[np.int64]) -> list[str]:
        """Names records for errors: each one's file and its place in it, counted from 0."""
        spans = self.records.locate(indices)
        pairs = zip(spans.files.tolist(), spans.records.tolist(), strict=True)
        return [f"{self.records.paths[number]}, record {record}" for number, record in pairs]

    def _corrupt(self, index: NDArray[np.int64]) -> DataError:
        (name,) = self.names(index)
        self._reader.check_unchanged(int(self.records.locate(index).files[0]))
        return DataError(f"{name}: the data's checksum is wrong, the file is damaged.")
