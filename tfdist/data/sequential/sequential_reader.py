"""Reader of samples by their numbers from streams, which can only be read in sequence.

The numbers must come nearly in order: within each file, no sample may be requested after a whole window of later ones.
Then each file is read once from its beginning, and little of it is held.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Container, Generator, Sequence
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from tfdist.errors import DataError

T = TypeVar("T")

SampleStream = Generator[Sequence[T], None, None]
"""The samples of a file from its first one on, some at a time."""


class SequentialReader(Generic[T]):
    """Reads samples that are numbered file by file. Safe to use from several threads.

    Any sample is found; one that is out of order takes longer, as its file is read again from its beginning.
    """

    def __init__(
        self,
        counts: Sequence[int],
        names: Sequence[str],
        open_stream: Callable[[int], SampleStream[T]],
        lanes: int,
        window: int,
    ) -> None:
        """Takes the files and opens none.

        Args:
            counts: The number of samples of each file.
            names: The names of the files, for errors.
            open_stream: From a file's place in `counts` to its samples, from the first on.
            lanes: Files that are read at the same time.
            window: How far back in a file a sample may be requested.
        """
        self._names, self._open_stream = names, open_stream
        self._first = np.concatenate([[0], np.cumsum(np.array(counts, np.int64))])
        self._window = window
        # A lane begins its next file while the rest of the one before is still requested.
        self._most_open = 2 * lanes
        self._open: OrderedDict[int, _OpenFile[T]] = OrderedDict()
        self._zeroth: list[T] = []
        self._largest = 0
        self._lock = threading.Lock()

    def __len__(self) -> int:
        """The number of samples."""
        return int(self._first[-1])

    def locate(self, samples: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The file of each sample, and its place in it, both int64 [k]."""
        files = np.searchsorted(self._first, samples, side="right") - 1
        return files, samples - self._first[files]

    def read(self, samples: NDArray[np.int64]) -> list[T]:
        """Returns the samples with these numbers, [k].

        Raises:
            DataError: A file cannot be read, is damaged, or has fewer samples than it had.
        """
        files, records = self.locate(samples)
        wanted: dict[int, list[int]] = {}
        for file, record in zip(files.tolist(), records.tolist(), strict=True):
            wanted.setdefault(file, []).append(record)
        with self._lock:
            # Calls of several threads may be out of order by a batch or two.
            self._largest = max(self._largest, len(samples))
            found = {file: self._take(file, places) for file, places in wanted.items()}
        return [found[file][record] for file, record in zip(files.tolist(), records.tolist(), strict=True)]

    def _take(self, file: int, records: list[int]) -> dict[int, T]:
        if not self._first[file] and self._zeroth:
            # Batches anywhere in the epoch are filled up with sample 0, for which its file must not be read again.
            later = [record for record in records if record]
            return {0: self._zeroth[0], **(self._take_from_stream(file, later) if later else {})}
        found = self._take_from_stream(file, records)
        if not self._first[file] and 0 in found:
            self._zeroth.append(found[0])
        return found

    def _take_from_stream(self, file: int, records: list[int]) -> dict[int, T]:
        try:
            return self._opened(file, records).take(records, self._window + 4 * self._largest)
        except BaseException:
            # A stream that has failed gives no more samples: another batch would find the file too short.
            if (failed := self._open.pop(file, None)) is not None:
                failed.close()
            raise

    def _opened(self, file: int, records: list[int]) -> _OpenFile[T]:
        """The file, open at a place from which it reaches the records."""
        opened = self._open.pop(file, None)
        if opened is not None and not all(map(opened.reaches, records)):
            opened.close()
            opened = None
        if opened is None:
            count = int(self._first[file + 1] - self._first[file])
            opened = _OpenFile(self._names[file], count, self._open_stream(file))
        self._open[file] = opened
        while len(self._open) > self._most_open:
            self._open.popitem(last=False)[1].close()
        return opened


class _OpenFile(Generic[T]):
    """A file that is being read."""

    def __init__(self, name: str, count: int, stream: SampleStream[T]) -> None:
        self._name, self._count, self._stream = name, count, stream
        self._held: dict[int, T] = {}
        self._oldest = self._read = 0

    def reaches(self, record: int) -> bool:
        """Returns whether a record is still to come, or is held."""
        return record >= self._read or record in self._held

    def take(self, records: list[int], keep: int) -> dict[int, T]:
        """Returns records that it reaches, and drops them and all that are more than `keep` before the last."""
        last, wanted = max(records), frozenset(records)
        while self._read <= last:
            self._hold(next(self._stream, ()))
            # On the way, too: a training that resumes in the middle of a file reads over half of it.
            self._forget(min(self._read, last) - keep, wanted)
        found = {record: self._held.pop(record) for record in wanted}
        self._forget(last - keep)
        return found

    def _forget(self, before: int, but: Container[int] = ()) -> None:
        """Drops records before one, except some."""
        for record in range(self._oldest, before):
            if record not in but:
                self._held.pop(record, None)
        self._oldest = max(self._oldest, before)

    def _hold(self, samples: Sequence[T]) -> None:
        if not samples:
            raise DataError(
                f"{self._name} ends after {self._read} samples. Expected {self._count}, as many as there were at the "
                "start of the run: it must give the same samples in every epoch, and stay as it is until the run ends."
            )
        self._held.update(zip(range(self._read, self._read + len(samples)), samples, strict=True))
        self._read += len(samples)

    def close(self) -> None:
        """Closes the file."""
        self._stream.close()
