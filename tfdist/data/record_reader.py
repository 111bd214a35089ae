"""Reading records by their numbers, from files that must stay as they were."""

from __future__ import annotations

import contextlib
import os
import threading
import time
import weakref
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tfdist.data.index_files import Stamp
from tfdist.data.records import Records, Spans
from tfdist.errors import DataError

MAX_OPEN_FILES = 256
MAX_RUN_BYTES = 4 << 20
"""Records that lie one after another are read together, those that begin in the same so many bytes of the file."""

CHECK_SECONDS = 10.0
"""How often a file that is being read is looked at for changes."""


SLOW_SECONDS = 20e-6
"""A read that takes longer did not find its data in memory, nor on a disk that needs no help."""

ANNOUNCED_BATCHES = 64
"""So many batches after a slow one are announced to the disk before they are read."""


class Block(NamedTuple):
    """Records in one piece of memory: for TensorFlow one value, however many records, instead of an object for each.

    Attributes:
        data: What was read; the records lie in it, in any order and with other bytes between them.
        starts: Where each record begins in `data`, int64 [k].
        sizes: In bytes, int64 [k].
    """

    data: bytes
    starts: NDArray[np.int64]
    sizes: NDArray[np.int64]

    @classmethod
    def of(cls, records: Sequence[bytes]) -> Block:
        """The block of records that are in pieces already."""
        sizes = np.array([len(record) for record in records], np.int64)
        return cls(b"".join(records), np.cumsum(sizes) - sizes, sizes)

    def cut(self) -> list[bytes]:
        """The bytes of each record."""
        stops = self.starts + self.sizes
        return [self.data[start:stop] for start, stop in zip(self.starts.tolist(), stops.tolist(), strict=True)]


class RecordReader:
    """Reads records of a `Records` by their numbers. Safe to use from several threads."""

    def __init__(self, records: Records, check_seconds: float = CHECK_SECONDS) -> None:
        self.records = records
        self._check_seconds = check_seconds
        self._checked = dict.fromkeys(range(len(records.paths)), float("-inf"))
        self._open: dict[int, int] = {}
        self._announced = 0
        self._lock = threading.Lock()
        weakref.finalize(self, _close_all, self._open)

    def read(self, samples: NDArray[np.int64], after: int = 0) -> Block:
        """Returns the records `samples` [k], each with `after` bytes of the file that follow it.

        Raises:
            DataError: A file can no longer be read, or is not what it was when the run began.
        """
        if not len(samples):
            return Block(b"", samples, samples)
        # In the order of the files, in which the system finds them sooner, and neighbours are read together.
        order = np.argsort(samples)
        spans = self.records.locate(samples[order])
        sizes = spans.sizes + after
        self._check_again(set(spans.files.tolist()))
        first = _first_of_runs(spans, self.records.gap)
        last = np.append(first[1:], len(samples)) - 1
        starts = spans.offsets[first]
        lengths = spans.offsets[last] + sizes[last] - starts
        pieces = self._read_timed(spans.files[first].tolist(), starts.tolist(), lengths.tolist())
        # From a place in the file to one in what is read.
        shifts = np.repeat(np.cumsum(lengths) - lengths - starts, last - first + 1)
        asked = np.empty((2, len(samples)), np.int64)
        asked[:, order] = spans.offsets + shifts, sizes
        return Block(b"".join(pieces), *asked)

    def check_unchanged(self, number: int) -> None:
        """Checks that a file is what it was when the run began.

        Args:
            number: Its place in `Records.paths`.

        Raises:
            DataError: It is not, or is gone.
        """
        try:
            self._compare(number, os.stat(self.records.paths[number]))
        except OSError as error:
            raise self._unreadable(number, error) from error

    def _check_again(self, numbers: set[int]) -> None:
        """Looks at those files for changes whose last look is some time ago."""
        now = time.monotonic()
        for number in numbers:
            if now - self._checked[number] > self._check_seconds:
                self._checked[number] = now
                self.check_unchanged(number)

    def _read_timed(self, files: Sequence[int], starts: Sequence[int], sizes: Sequence[int]) -> list[bytes]:
        """So many bytes from each place. A disk that is slow is told of all of them first, and fetches them at once."""
        begun = time.perf_counter()
        if self._announced:
            self._announced -= 1
            self._announce(files, starts, sizes)
        found = self._read_each(files, starts, sizes)
        if time.perf_counter() - begun > SLOW_SECONDS * len(found):
            self._announced = ANNOUNCED_BATCHES
        return found

    def _announce(self, files: Sequence[int], starts: Sequence[int], sizes: Sequence[int]) -> None:
        """Asks the system to fetch what will be read; where it does not take advice, it is read without."""
        with contextlib.suppress(OSError):
            for number, start, size in zip(files, starts, sizes, strict=True):
                if number in self._open:
                    os.posix_fadvise(self._open[number], start, size, os.POSIX_FADV_WILLNEED)

    def _read_each(self, files: Sequence[int], starts: Sequence[int], sizes: Sequence[int]) -> list[bytes]:
        """So many bytes from each place, one after another."""
        descriptors, pread = self._open, os.pread
        if descriptors.keys() >= set(files):
            # What is done a record here is done some 100,000 times a second. Whatever is wrong is found out below.
            with contextlib.suppress(OSError):
                places = zip(files, starts, sizes, strict=True)
                found = [pread(descriptors[number], size, start) for number, start, size in places]
                if list(map(len, found)) == sizes:
                    return found
        return [self._read_one(*place) for place in zip(files, starts, sizes, strict=True)]

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
        descriptor: int | None = os.open(self.records.paths[number], os.O_RDONLY | os.O_CLOEXEC)
        try:
            self._compare(number, os.fstat(descriptor))
            data = os.pread(descriptor, size, start)
            with self._lock:
                # Kept descriptors are never closed while readers may use them; past the limit, files open for one read.
                if number not in self._open and len(self._open) < MAX_OPEN_FILES:
                    self._open[number], descriptor = descriptor, None
        finally:
            if descriptor is not None:
                os.close(descriptor)
        return data

    def _compare(self, number: int, status: os.stat_result) -> None:
        before, now = self.records.stamps[number], Stamp.of(status)
        if now == before:
            return
        what = f"{now.size} bytes instead of {before.size}" if now.size != before.size else "written again"
        raise DataError(
            f"{self.records.paths[number]} changed while the run was using it: {what}. Expected files that stay as "
            "they are until the run ends. Start again once it is written."
        )

    def _unreadable(self, number: int, error: OSError) -> DataError:
        return DataError(f"Cannot read {self.records.paths[number]}: {error.strerror or error}.")


def _first_of_runs(spans: Spans, gap: int) -> NDArray[np.int64]:
    """The first record of each run of records that lie one after another in a file and are read together."""
    ends = spans.offsets[:-1] + spans.sizes[:-1] + gap
    follows = (spans.files[1:] == spans.files[:-1]) & (spans.offsets[1:] == ends)
    parts = spans.offsets // MAX_RUN_BYTES
    return np.concatenate([[0], np.flatnonzero(~follows | (parts[1:] != parts[:-1])) + 1])


def _close_all(descriptors: dict[int, int]) -> None:
    for descriptor in descriptors.values():
        os.close(descriptor)
