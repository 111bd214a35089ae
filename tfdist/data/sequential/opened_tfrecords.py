"""Records of TFRecord files, opened in the way that the files allow."""

from __future__ import annotations

from pathlib import Path
from typing import TypeAlias

from tfdist.data.files.file_patterns import FilePatterns
from tfdist.data.files.remote_files import is_remote, names_of
from tfdist.data.random_access.numbered_records import OnCorrupt
from tfdist.data.random_access.tfrecord_reader import TFRecordReader
from tfdist.data.sequential.sequential_tfrecords import SequentialTFRecordReader
from tfdist.data.sequential.tfrecord_stream import compression_of
from tfdist.errors import DataError
from tfdist.order.sequential_order import LANES, SHUFFLE_BUFFER

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
