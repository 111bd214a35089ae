"""Reader of TFRecord files that are compressed or on another file system: in sequence, with checksums verified."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tfdist.data.files.file_stamps import changed_error
from tfdist.data.files.remote_files import stamp_of
from tfdist.data.ops.prefetch import BATCH_BY_BATCH
from tfdist.data.random_access.record_reader import RecordBlock
from tfdist.data.sequential.record_counts import SequentialFile, count_records
from tfdist.data.sequential.sequential_reader import SampleStream, SequentialReader
from tfdist.data.sequential.tfrecord_stream import read_records
from tfdist.errors import DataError
from tfdist.order.sequential_order import LANES, SHUFFLE_BUFFER, Lanes


class SequentialTFRecordReader:
    """Reads records by their numbers, like `TFRecordReader`, in an order of `tfdist.order.sequential_order`.

    Attributes:
        files: The files, in the order of their records.
        lanes: How they are read.
        pace: How `read` may be called.
    """

    pace = BATCH_BY_BATCH

    def __init__(self, names: Sequence[str], shuffle_buffer: int = SHUFFLE_BUFFER, interleave: int = LANES) -> None:
        """Counts the records where no count is kept; see `count_records` for the errors.

        Args:
            names: The files.
            shuffle_buffer: See `Lanes.of`.
            interleave: How many files are read at the same time, at most.
        """
        self.files: tuple[SequentialFile, ...] = count_records(names)
        counts = tuple(file.records for file in self.files)
        if not sum(counts):
            some = ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")
            raise DataError(f"Expected at least one sample. Received: {len(names)} file(s) without any: {some}.")
        self.lanes = Lanes.of(counts, interleave, shuffle_buffer)
        self._reader = SequentialReader(counts, names, self._stream, self.lanes.number, self.lanes.window)

    def __len__(self) -> int:
        return len(self._reader)

    def read(self, indices: NDArray[np.int64]) -> RecordBlock:
        """Returns the records `indices` [k].

        Raises:
            DataError: A record is damaged, or its file can no longer be read or has changed.
        """
        return RecordBlock.of(self._reader.read(indices))

    def places(self, indices: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The place of each record's file in `files`, and its number in the file, both int64 [k]."""
        return self._reader.locate(indices)

    def names(self, indices: NDArray[np.int64]) -> list[str]:
        """Names records for errors: the file of each, and its number in it, counted from 0."""
        files, records = self.places(indices)
        pairs = zip(files.tolist(), records.tolist(), strict=True)
        return [f"{self.files[number].name}, record {record}" for number, record in pairs]

    def _stream(self, number: int) -> SampleStream[bytes]:
        file = self.files[number]
        if stamp_of(file.name) != file.stamp:
            raise changed_error(file.name)
        assert file.compression is not None, "an empty file has no records"
        yield from read_records(file.name, file.compression)
