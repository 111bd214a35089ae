"""Reader of TFRecord files that are compressed or on another file system: in sequence, with checksums verified.

Numbers of records in files that can only be read in sequence: counted once, and kept.

A count is kept as an index is (`tfdist.data.random_access.index_files`): next to the file, or in the cache where that
cannot be written or is remote. It is valid as long as the file has the same size and time.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from tfdist import bounded_json
from tfdist.data.files.file_facts import FileStamp, changed_error
from tfdist.data.files.file_patterns import FilePatterns
from tfdist.data.files.remote_files import is_remote, names_of, stamp_of
from tfdist.data.ops.prefetch import BATCH_BY_BATCH
from tfdist.data.random_access.index_files import places, writing
from tfdist.data.random_access.numbered_records import KEPT_FROM_BYTES, PARALLEL_INDICES, OnCorrupt
from tfdist.data.random_access.record_reader import RecordBlock
from tfdist.data.random_access.tfrecord_reader import TFRecordReader
from tfdist.data.sequential.sequential_reader import SampleStream, SequentialReader
from tfdist.data.sequential.tfrecord_stream import TFRecordCompression, compression_of, read_records
from tfdist.errors import DataError
from tfdist.order.sequential_order import LANES, SHUFFLE_BUFFER, Lanes
from tfdist.rundir.regular_files import open_regular

_SUFFIX = ".tfcount"
_MOST_BYTES = 1 << 12
_END_OF_COUNTS = 1 << 63


@dataclass(frozen=True)
class SequentialFile:
    """A file that is read from its beginning.

    Attributes:
        name: Its path, or its URL for TensorFlow.
        compression: How it is compressed; None where it is empty.
        stamp: Its stamp when its records were counted.
        records: The number of its records.
    """

    name: str
    compression: TFRecordCompression | None
    stamp: FileStamp
    records: int


def count_records(names: Sequence[str], cache: Path | None = None) -> tuple[SequentialFile, ...]:
    """Returns files with their numbers of records; those without a kept count are counted, several at a time.

    Workers that start at the same time begin with different files, so that each finds what others have counted.

    Args:
        names: The files.
        cache: See `tfdist.data.random_access.record_index.open_index`.

    Raises:
        DataError: A file cannot be read, is damaged or truncated, or changed while it was counted; or files are
            compressed in different ways.
    """
    compressions = [compression_of(name) for name in names]
    check_alike(names, compressions)
    stamps = [stamp_of(name) for name in names]
    keep = sum(stamp.size for stamp in stamps) >= KEPT_FROM_BYTES
    begin = os.getpid() % len(names)
    with ThreadPoolExecutor(min(PARALLEL_INDICES, len(names))) as pool:
        try:
            counted = {
                place: pool.submit(_count, names[place], compressions[place], stamps[place], keep, cache)
                for place in [*range(begin, len(names)), *range(begin)]
            }
            return tuple(counted[place].result() for place in range(len(names)))
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def check_alike(names: Sequence[str], compressions: Sequence[TFRecordCompression | None]) -> None:
    """Checks that files are compressed in the same way; empty ones fit all others.

    Raises:
        DataError: They are not.
    """
    kinds: dict[TFRecordCompression, str] = {}
    for name, kind in zip(names, compressions, strict=True):
        if kind is not None:
            kinds.setdefault(kind, name)
    if len(kinds) > 1:
        words = {kind: f"{kind}-compressed" if kind else "not compressed" for kind in kinds}
        found = ", ".join(f"{name} is {words[kind]}" for kind, name in kinds.items())
        raise DataError(
            f"The files are compressed in different ways: {found}. Expected one way for all files of a source. Write "
            "them alike, or name the files of one kind alone."
        )


def _count(
    name: str, compression: TFRecordCompression | None, stamp: FileStamp, keep: bool, cache: Path | None
) -> SequentialFile:
    candidates = _places(name, cache)
    for place in candidates:
        records = _kept(place, stamp)
        if records is not None:
            return SequentialFile(name, compression, stamp, records)
    records = 0
    if compression is not None:
        records = sum(len(found) for found in read_records(name, compression, verify=False))
    if stamp_of(name) != stamp:
        raise DataError(f"{name} changed while it was counted. Wait until it is written, and start again.")
    if keep:
        _keep(candidates, stamp, records)
    return SequentialFile(name, compression, stamp, records)


def _places(name: str, cache: Path | None) -> tuple[Path, ...]:
    # A remote file has a name but no path here: only the cache has a place for its count.
    found = places(Path("/", name), cache)[1:] if is_remote(name) else places(Path(name), cache)
    return tuple(place.with_suffix(_SUFFIX) for place in found)


def _kept(place: Path, stamp: FileStamp) -> int | None:
    try:
        with open_regular(place) as file:
            content = bounded_json.parse(file.read(_MOST_BYTES + 1), _MOST_BYTES)
        fits = FileStamp(content["size"], content["modified_ns"]) == stamp
        records = content["records"]
        return records if fits and isinstance(records, int) and 0 <= records < _END_OF_COUNTS else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _keep(candidates: Sequence[Path], stamp: FileStamp, records: int) -> None:
    """Keeps a count. Its file is whole or absent; where none can be written, records are counted again next time."""
    content = {"size": stamp.size, "modified_ns": stamp.modified_ns, "records": records}
    for place in candidates:
        # On a full disk nothing is lost but the time of counting again.
        with contextlib.suppress(OSError), writing([place]) as (file, kept):
            file.write(json.dumps(content).encode())
            if kept is not None:
                return


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


TFRecords: TypeAlias = TFRecordReader | SequentialTFRecordReader
"""Readers of records by their numbers."""


def open_tfrecords(
    files: FilePatterns,
    on_corrupt: OnCorrupt = "stop",
    shuffle_buffer: int = SHUFFLE_BUFFER,
    interleave: int = LANES,
) -> TFRecords:
    """Finds the records of files: in any order where they allow it, else in sequence.

    Args:
        files: A path, a pattern, or a list of these; with a scheme, such as `gs://`, in a store.
        on_corrupt: See `Records.open`.
        shuffle_buffer: For files that are read in sequence; see `Lanes.of`.
        interleave: For these files: how many are read at the same time, at most.

    Raises:
        DataError: See `Records.open` and `SequentialTFRecordReader`; or `on_corrupt` is `skip` for files that are read
            in sequence.
    """
    names = names_of(files)
    compression = next((kind for kind in map(compression_of, names) if kind is not None), "")
    if not compression and not any(map(is_remote, names)):
        return TFRecordReader(tuple(map(Path, names)), on_corrupt)
    if on_corrupt == "skip":
        raise DataError(
            f"on_corrupt: skip was asked for, and {names[0]} is {why_in_sequence(compression)}: it is read in "
            "sequence, and no record is found after a corrupt one. Use on_corrupt: stop, or files that are local and "
            "not compressed."
        )
    return SequentialTFRecordReader(names, shuffle_buffer, interleave)


def why_in_sequence(compression: str) -> str:
    """Returns what files are that are read in sequence, in words.

    Args:
        compression: Theirs; empty for none.
    """
    return f"{compression}-compressed" if compression else "on another file system"
