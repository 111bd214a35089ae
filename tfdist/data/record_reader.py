"""Reading records by their numbers, from files that must stay as they were."""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from tfdist.data.index_files import Stamp
from tfdist.data.records import Records, Spans
from tfdist.errors import DataError

MAX_OPEN_FILES = 256
MAX_RUN_BYTES = 4 << 20
"""Records that lie one after another are read together, so many bytes at most."""

CHECK_SECONDS = 10.0
"""How often a file that is being read is looked at for changes."""


class RecordReader:
    """Reads records of a `Records` by their numbers. Safe to use from several threads."""

    def __init__(self, records: Records, check_seconds: float = CHECK_SECONDS) -> None:
        self.records = records
        self._check_seconds = check_seconds
        self._checked = dict.fromkeys(range(len(records.paths)), float("-inf"))
        self._open: dict[int, int] = {}
        self._lock = threading.Lock()
        weakref.finalize(self, _close_all, self._open)

    def read(self, samples: NDArray[np.int64], after: int = 0) -> list[bytes]:
        """Returns the bytes of the records `samples` [k], each with `after` bytes of the file that follow it.

        Raises:
            DataError: A file can no longer be read, or is not what it was when the run began.
        """
        spans = self.records.locate(samples)
        files, starts, sizes = spans.files.tolist(), spans.offsets.tolist(), (spans.sizes + after).tolist()
        self._check_again(set(files))
        follows = _follows(spans, self.records.gap)
        if not follows.any():
            return self._read_each(files, starts, sizes)
        found: list[bytes] = []
        for first, last in _runs(follows, starts, sizes):
            start = starts[first]
            (data,) = self._read_each(files[first : first + 1], [start], [starts[last - 1] + sizes[last - 1] - start])
            found += [data[starts[n] - start : starts[n] - start + sizes[n]] for n in range(first, last)]
        return found

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

    def _read_each(self, files: Sequence[int], starts: Sequence[int], sizes: Sequence[int]) -> list[bytes]:
        """So many bytes from each place. What is done a record here, is done some 100,000 times a second."""
        descriptors, pread = self._open, os.pread
        found = []
        for number, start, size in zip(files, starts, sizes, strict=True):
            try:
                descriptor = descriptors.get(number)
                data = self._read_anew(number, start, size) if descriptor is None else pread(descriptor, size, start)
            except OSError as error:
                raise self._unreadable(number, error) from error
            if len(data) < size:
                self.check_unchanged(number)
                raise DataError(f"{self.records.paths[number]} ends at byte {start + len(data)}, inside a record.")
            found.append(data)
        return found

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


def _follows(spans: Spans, gap: int) -> NDArray[np.bool_]:
    """Whether each record but the first lies behind the one before it, bool [k - 1]."""
    ends = spans.offsets[:-1] + spans.sizes[:-1] + gap
    return (spans.files[1:] == spans.files[:-1]) & (spans.offsets[1:] == ends)


def _runs(follows: NDArray[np.bool_], starts: Sequence[int], sizes: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Cuts records into runs that lie one after another: the first of each and the one after its last."""
    first = 0
    for n, follow in enumerate(follows.tolist(), 1):
        if not follow or starts[n] + sizes[n] - starts[first] > MAX_RUN_BYTES:
            yield first, n
            first = n
    yield first, len(starts)


def _close_all(descriptors: dict[int, int]) -> None:
    for descriptor in descriptors.values():
        os.close(descriptor)
