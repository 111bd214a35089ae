"""Files of records: which files a pattern means, and random access to the records in them."""

from __future__ import annotations

import glob
import os
import threading
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tfdist.errors import DataError

Spans = tuple[NDArray[np.int64], NDArray[np.int64]]
"""Where a file's records lie: int64 offsets and int64 lengths, both of shape [records], in bytes."""

MAX_OPEN_FILES = 256


def matching(files: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]) -> tuple[Path, ...]:
    """Returns the files that a pattern, a path or a list of these mean, in sorted order.

    Raises:
        DataError: A pattern matches no file, or a file does not exist.
    """
    patterns = [files] if isinstance(files, (str, os.PathLike)) else list(files)
    if not patterns:
        raise DataError("Expected at least one file or pattern. Received: an empty list.")
    found: set[str] = set()
    for pattern in [os.fspath(pattern) for pattern in patterns]:
        matches = [pattern] if os.path.exists(pattern) else glob.glob(pattern, recursive=True)
        if not matches:
            what = "No file matches" if glob.has_magic(pattern) else "No such file:"
            raise DataError(f"{what} {pattern} (working directory: {os.getcwd()}).")
        found.update(matches)
    for path in found:
        if os.path.isdir(path):
            raise DataError(f"{path} is a directory. Expected a file, or a pattern such as {path}/*.")
    return tuple(Path(path) for path in sorted(found))


@dataclass(frozen=True)
class Records:
    """The records of several files, numbered through from 0.

    Attributes:
        paths: The files, in the order of their records.
        first: int64 of shape [files + 1]; the records of file `f` are `first[f] ... first[f + 1] - 1`.
        offsets: int64 of shape [records], bytes from the start of the file.
        lengths: int64 of shape [records], bytes.
    """

    paths: tuple[Path, ...]
    first: NDArray[np.int64]
    offsets: NDArray[np.int64]
    lengths: NDArray[np.int64]

    @classmethod
    def index(cls, paths: Sequence[Path], spans_of: Callable[[Path], Spans]) -> Records:
        """Looks up where every record of `paths` lies.

        Raises:
            DataError: A file cannot be read, or there is no record in any of them.
        """
        spans = []
        for path in paths:
            try:
                spans.append(spans_of(path))
            except OSError as error:
                raise DataError(f"Cannot read {path}: {error.strerror or error}.") from error
        counts = [len(offsets) for offsets, _ in spans]
        if not sum(counts):
            some = ", ".join(map(str, paths[:3])) + (", ..." if len(paths) > 3 else "")
            raise DataError(f"Expected at least one sample. Received: {len(paths)} file(s) without any: {some}.")
        first = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        offsets, lengths = (np.concatenate(columns) for columns in zip(*spans, strict=True))
        return cls(tuple(paths), first, offsets, lengths)

    def __len__(self) -> int:
        return len(self.offsets)

    def files_of(self, indices: NDArray[np.int64]) -> NDArray[np.int64]:
        """Returns the numbers of the files that have the records `indices`, of the same shape [k]."""
        return np.searchsorted(self.first, indices, side="right") - 1

    def file_of(self, index: int) -> int:
        """Returns the number of the file that has a record."""
        return int(self.files_of(np.array([index]))[0])


class RecordReader:
    """Reads records of a `Records` by their numbers. Safe to use from several threads."""

    def __init__(self, records: Records) -> None:
        self.records = records
        self._open: dict[int, int] = {}
        self._lock = threading.Lock()
        weakref.finalize(self, _close_all, self._open)

    def read(self, indices: NDArray[np.int64], after: int = 0) -> list[bytes]:
        """Returns the bytes of the records `indices` [k], each with `after` bytes of the file that follow it.

        Raises:
            DataError: A file can no longer be read, or has become shorter.
        """
        numbers = self.records.files_of(indices).tolist()
        offsets = self.records.offsets[indices].tolist()
        sizes = (self.records.lengths[indices] + after).tolist()
        return [self._read(*where) for where in zip(numbers, offsets, sizes, strict=True)]

    def _read(self, number: int, start: int, size: int) -> bytes:
        try:
            data = self._read_at(number, start, size)
        except OSError as error:
            raise DataError(f"Cannot read {self.records.paths[number]}: {error.strerror or error}.") from error
        if len(data) < size:
            path = self.records.paths[number]
            raise DataError(f"{path} has become shorter than it was when the run began, at byte {start}.")
        return data

    def _read_at(self, number: int, start: int, size: int) -> bytes:
        descriptor = self._open.get(number)
        if descriptor is not None:
            return os.pread(descriptor, size, start)
        descriptor = os.open(self.records.paths[number], os.O_RDONLY | os.O_CLOEXEC)
        try:
            data = os.pread(descriptor, size, start)
            with self._lock:
                # Kept descriptors are never closed while readers may use them; past the limit, files open for one read.
                if number not in self._open and len(self._open) < MAX_OPEN_FILES:
                    self._open[number], descriptor = descriptor, None
        finally:
            if descriptor is not None:
                os.close(descriptor)
        return data


def _close_all(descriptors: dict[int, int]) -> None:
    for descriptor in descriptors.values():
        os.close(descriptor)
