"""Reader of records by their numbers, from files that must not change.

The system provides a large piece of new memory page by page, as each is first written to, which takes longer than
copying into it; and freed memory goes back to the system.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import threading
import time
import weakref
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tfdist.data.files.file_facts import FileStamp, changed_error
from tfdist.data.random_access.linux_aio import MAX_READS, AioReader
from tfdist.data.random_access.numbered_records import Records, RecordSpans
from tfdist.errors import DataError

LARGEST_KEPT = 16 << 20
"""Bytes; larger buffers are freed after their use."""


class BufferPool:
    """Lends buffers, one to each thread that asks. Safe to use from several threads."""

    def __init__(self) -> None:
        self._free: list[NDArray[np.uint8]] = []
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def lent(self, size: int) -> Iterator[NDArray[np.uint8]]:
        """Lends a buffer with undefined content, uint8 [size]."""
        with self._lock:
            buffer = self._free.pop() if self._free else None
        if buffer is None or len(buffer) < size:
            buffer = np.empty(size, np.uint8)
        try:
            yield buffer[:size]
        finally:
            if len(buffer) <= LARGEST_KEPT:
                with self._lock:
                    self._free.append(buffer)


def new_bytes(size: int) -> tuple[bytes, NDArray[np.uint8]]:
    """Returns a new bytes object with undefined content, and an array of its memory to write into, uint8 [size].

    The C function is made for this. The object must be filled before it is hashed or passed on, and must be held as
    long as the array is used.
    """
    make = ctypes.pythonapi.PyBytes_FromStringAndSize
    make.argtypes, make.restype = [ctypes.c_char_p, ctypes.c_ssize_t], ctypes.py_object
    data: bytes = make(None, size)
    address = np.frombuffer(data, np.uint8).ctypes.data
    return data, np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(address))


MAX_OPEN_FILES = 256
MAX_RUN_BYTES = 4 << 20
"""Records that lie one after another in the same stretch of so many bytes of a file are read together."""

CHECK_SECONDS = 10.0
"""The interval, in seconds, at which a file is checked for changes while it is read."""

MANY = 16
"""Fewer reads are made one by one: making a list of them takes as long as some reads."""

FIRST_READS = 64
"""Reads that show whether a disk is slow, before more are requested."""

SLOW_SECONDS = 20e-6
"""A read that takes longer than this came from a slow disk, not from memory or a fast one."""

ANNOUNCED_CALLS = 64
"""After a slow call, what is read is announced to the system in this many calls."""


class RecordBlock(NamedTuple):
    """Records in one piece of memory: one value for TensorFlow, however many records, not an object for each.

    Attributes:
        data: What was read: the records, in any order and with other bytes between them.
        starts: Where each record begins in `data`, int64 [k].
        sizes: The size of each record in bytes, int64 [k].
    """

    data: bytes
    starts: NDArray[np.int64]
    sizes: NDArray[np.int64]

    @classmethod
    def of(cls, records: Sequence[bytes]) -> RecordBlock:
        """The block of records that are separate already."""
        sizes = np.array([len(record) for record in records], np.int64)
        return cls(b"".join(records), np.cumsum(sizes) - sizes, sizes)

    def cut(self) -> list[bytes]:
        """The bytes of each record."""
        stops = self.starts + self.sizes
        return [self.data[start:stop] for start, stop in zip(self.starts.tolist(), stops.tolist(), strict=True)]


class FileRanges(NamedTuple):
    """Parts of files that are read, each of shape [k].

    Attributes:
        files: The file of each, by its place in `Records.paths`.
        starts: Bytes from the start of the file.
        sizes: Sizes in bytes.
    """

    files: NDArray[np.int64]
    starts: NDArray[np.int64]
    sizes: NDArray[np.int64]

    def part(self, first: int, end: int) -> FileRanges:
        """Those from `first` on that come before `end`."""
        return FileRanges(*(column[first:end] for column in self))

    def each(self) -> Iterator[tuple[int, int, int]]:
        """File, start and size of one after another."""
        return zip(*(column.tolist() for column in self), strict=True)


class RecordReader:
    """Reads records of a `Records` by their numbers. Safe to use from several threads."""

    def __init__(self, records: Records, check_seconds: float = CHECK_SECONDS) -> None:
        self.records = records
        self._check_seconds = check_seconds
        self._checked = dict.fromkeys(range(len(records.paths)), float("-inf"))
        self._open: dict[int, int] = {}
        self._descriptors = np.full(len(records.paths), -1, np.int64)
        self._many = AioReader.if_possible()
        self._most = FIRST_READS
        self._announced = 0
        self._lock = threading.Lock()
        weakref.finalize(self, _close_all, self._open)

    @property
    def reads_many(self) -> bool:
        """True if many records are read in one call of the system, without Python's lock."""
        return self._many is not None

    def read(self, samples: NDArray[np.int64], after: int = 0) -> RecordBlock:
        """Returns the records `samples` [k], each with `after` bytes of the file that follow it.

        Raises:
            DataError: A file can no longer be read, or has changed since the run began.
        """
        if not len(samples):
            return RecordBlock(b"", samples, samples)
        # In the order of the files, which is faster for the system, and neighbours are read together.
        ordered, places = np.unique(samples, return_inverse=True)
        spans = self.records.locate(ordered)
        sizes = spans.sizes + after
        self._check_again(np.unique(spans.files).tolist())
        first = _first_of_runs(spans, self.records.gap)
        last = np.append(first[1:], len(ordered)) - 1
        starts = spans.offsets[first]
        runs = FileRanges(spans.files[first], starts, spans.offsets[last] + sizes[last] - starts)
        # From a place in the file to one in what is read.
        shifts = np.repeat(np.cumsum(runs.sizes) - runs.sizes - starts, last - first + 1)
        return RecordBlock(self._read_runs(runs), (spans.offsets + shifts)[places], sizes[places])

    def check_unchanged(self, number: int) -> None:
        """Checks that a file has not changed since the run began.

        Args:
            number: Its place in `Records.paths`.

        Raises:
            DataError: It has changed, or is gone.
        """
        try:
            self._compare(number, os.stat(self.records.paths[number]))
        except OSError as error:
            raise self._unreadable(number, error) from error

    def _check_again(self, numbers: Iterable[int]) -> None:
        """Checks those files for changes whose last check was some time ago."""
        now = time.monotonic()
        for number in numbers:
            if now - self._checked[number] > self._check_seconds:
                self._checked[number] = now
                self.check_unchanged(number)

    def _read_runs(self, runs: FileRanges) -> bytes:
        """Reads runs one after another, after announcing them to a slow disk, which so fetches many at once."""
        data, into = new_bytes(int(runs.sizes.sum()))
        most, self._most = self._most, MAX_READS
        announced, first, filled = False, 0, 0
        while first < len(runs.files):
            if self._announced and not announced:
                self._announce(runs.part(first, len(runs.files)))
                announced = True
            part = runs.part(first, first + most)
            first, most = first + most, MAX_READS
            end = filled + int(part.sizes.sum())
            begun = time.perf_counter()
            self._read_part(part, into[filled:end])
            slow = time.perf_counter() - begun > SLOW_SECONDS * len(part.files)
            self._announced = ANNOUNCED_CALLS if slow else max(self._announced - 1, 0)
            filled = end
        return data

    def _announce(self, runs: FileRanges) -> None:
        """Asks the system to fetch what will be read; where it refuses, nothing is lost."""
        with contextlib.suppress(OSError):
            for number, start, size in runs.each():
                if number in self._open:
                    os.posix_fadvise(self._open[number], start, size, os.POSIX_FADV_WILLNEED)

    def _read_part(self, runs: FileRanges, into: NDArray[np.uint8]) -> None:
        """Reads MAX_READS runs or fewer."""
        if self._many is not None and len(runs.files) >= MANY:
            descriptors = self._descriptors[runs.files]
            if (descriptors >= 0).all() and self._many.read(descriptors, runs.starts, runs.sizes, into):
                return
            # What is wrong is found below.
        into[:] = np.frombuffer(b"".join([self._read_one(*run) for run in runs.each()]), np.uint8)

    def _read_one(self, number: int, start: int, size: int) -> bytes:
        try:
            is_open = number in self._open
            data = os.pread(self._open[number], size, start) if is_open else self._read_anew(number, start, size)
        except OSError as error:
            raise self._unreadable(number, error) from error
        if len(data) < size:
            self.check_unchanged(number)
            raise DataError(f"{self.records.paths[number]} ends at byte {start + len(data)}, inside a record.")
        return data

    def _read_anew(self, number: int, start: int, size: int) -> bytes:
        """Opens a file, and keeps it open where few are."""
        descriptor, is_kept = os.open(self.records.paths[number], os.O_RDONLY | os.O_CLOEXEC), False
        try:
            self._compare(number, os.fstat(descriptor))
            data = os.pread(descriptor, size, start)
            with self._lock:
                # Kept descriptors are not closed while readers may use them; past the limit, files open for one read.
                if number not in self._open and len(self._open) < MAX_OPEN_FILES:
                    self._open[number] = self._descriptors[number] = descriptor
                    is_kept = True
        finally:
            if not is_kept:
                os.close(descriptor)
        return data

    def _compare(self, number: int, status: os.stat_result) -> None:
        before, now = self.records.stamps[number], FileStamp.of(status)
        if now == before:
            return
        what = f"{now.size} bytes instead of {before.size}" if now.size != before.size else "written again"
        raise changed_error(self.records.paths[number], what)

    def _unreadable(self, number: int, error: OSError) -> DataError:
        return DataError(f"Cannot read {self.records.paths[number]}: {error.strerror or error}.")


def _first_of_runs(spans: RecordSpans, gap: int) -> NDArray[np.int64]:
    """The first record of each run of records that lie one after another in a file and are read together."""
    ends = spans.offsets[:-1] + spans.sizes[:-1] + gap
    follows = (spans.files[1:] == spans.files[:-1]) & (spans.offsets[1:] == ends)
    parts = spans.offsets // MAX_RUN_BYTES
    return np.concatenate([[0], np.flatnonzero(~follows | (parts[1:] != parts[:-1])) + 1])


def _close_all(descriptors: dict[int, int]) -> None:
    for descriptor in descriptors.values():
        os.close(descriptor)
