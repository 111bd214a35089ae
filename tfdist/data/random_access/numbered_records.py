"""Records of several files, numbered through from the indices of the files."""

from __future__ import annotations

import logging
import os
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tfdist.data.files.file_facts import FileStamp, local_file_system
from tfdist.data.files.remote_files import stamp_of
from tfdist.data.random_access.record_index import RecordIndex, RecordKind, open_index
from tfdist.errors import DataError
from tfdist.plan.plan_inputs import FileSizes, SourceSizes

OnCorrupt = Literal["stop", "skip"]
"""True if a corrupt record ends the run, or is left out as if the file did not have it."""

KEPT_FROM_BYTES = 64 << 20
"""Smaller data is indexed by every process, which takes a moment, and no index files appear next to it."""

IN_MEMORY_BYTES = 32 << 20
"""Larger arrays of the starts of records are written to a file without a name, and mapped."""

PARALLEL_INDICES = 8

_log = logging.getLogger("tfdist")


class RecordSpans(NamedTuple):
    """The places of some records, each of shape [k].

    Attributes:
        files: The file of each, by its place in `Records.paths`.
        records: The number of each in its file.
        offsets: Bytes from the start of the file.
        sizes: Sizes in bytes.
    """

    files: NDArray[np.int64]
    records: NDArray[np.int64]
    offsets: NDArray[np.int64]
    sizes: NDArray[np.int64]


@dataclass(frozen=True)
class Records:
    """The records of several files that are samples, numbered through from 0.

    Attributes:
        paths: The files, in the order of their records.
        stamps: The stamp of each file when it was indexed.
        first: int64 [files + 1]; the records of file `f`, those left out included, are `first[f] ... first[f + 1] - 1`.
        starts: int64 [records + files]: where every record starts and, after each file's last, where the next would.
        gap: Bytes between the end of a record and the start of the next.
        left_out: The numbers of records that are not samples, sorted, int64.
    """

    paths: tuple[Path, ...]
    stamps: tuple[FileStamp, ...]
    first: NDArray[np.int64]
    starts: NDArray[np.int64]
    gap: int
    left_out: NDArray[np.int64]

    @classmethod
    def open(
        cls,
        paths: Sequence[Path],
        kind: RecordKind,
        *,
        on_corrupt: OnCorrupt = "stop",
        header: bool = False,
        cache: Path | None = None,
    ) -> Records:
        """Opens the indices of files, and builds those that are missing or stale, several at a time.

        Args:
            paths: The files.
            kind: The kind of their records.
            on_corrupt: With `skip` all data is read once, to find what is corrupt; the index keeps the answer.
            header: Whether the first record of each file is a header and no sample.
            cache: See `open_index`.

        Raises:
            DataError: See `open_index`; or a record is corrupt and `on_corrupt` is `stop`; or there is no sample.
        """
        indices = _open_all(paths, kind, verify=on_corrupt == "skip", cache=cache)
        first = np.concatenate([[0], np.cumsum([len(index) for index in indices])]).astype(np.int64)
        left_out = [first[n] + index.corrupt["record"] for n, index in enumerate(indices)]
        _judge(indices, on_corrupt)
        if header:
            left_out.append(first[:-1][np.diff(first) > 0])
        records = cls(
            tuple(paths),
            tuple(index.stamp for index in indices),
            first,
            _joined([index.starts for index in indices]),
            indices[0].gap,
            np.unique(np.concatenate(left_out)).astype(np.int64),
        )
        if not len(records):
            some = ", ".join(map(str, paths[:3])) + (", ..." if len(paths) > 3 else "")
            raise DataError(f"Expected at least one sample. Received: {len(paths)} file(s) without any: {some}.")
        return records

    def within(self, spans: Sequence[tuple[int, int]]) -> Records:
        """These records without some at the beginnings and ends of files.

        Args:
            spans: Of each file, how many records are passed over, and how many after them are taken.

        Raises:
            DataError: There is no sample in them.
        """
        bounds = zip(self.first[:-1].tolist(), self.first[1:].tolist(), spans, strict=True)
        outside = [self.left_out]
        for first, end, (skip, take) in bounds:
            outside += [np.arange(first, min(first + skip, end)), np.arange(min(first + skip + take, end), end)]
        found = replace(self, left_out=np.unique(np.concatenate(outside)).astype(np.int64))
        if not len(found):
            raise DataError(f"Expected at least one sample. Received: none of {self.paths[0]} and the files beside it.")
        return found

    def __len__(self) -> int:
        """The number of samples."""
        return int(self.first[-1]) - len(self.left_out)

    @property
    def counts(self) -> NDArray[np.int64]:
        """The samples of each file, int64 [files]."""
        files = np.searchsorted(self.first, self.left_out, side="right") - 1
        return np.diff(self.first) - np.bincount(files, minlength=len(self.paths))

    @property
    def mean_bytes(self) -> float:
        """The mean size of a record in bytes, with those that are left out."""
        ends = np.arange(1, len(self.first)) + self.first[1:] - 1
        spans = self.starts[ends] - self.starts[self.first[:-1] + np.arange(len(self.paths))]
        return float(spans.sum()) / int(self.first[-1]) - self.gap

    def locate(self, samples: NDArray[np.int64]) -> RecordSpans:
        """Returns where the samples with these numbers, [k], lie."""
        if len(self.left_out):
            before = np.searchsorted(self.left_out - np.arange(len(self.left_out)), samples, side="right")
            samples = samples + before
        files = np.searchsorted(self.first, samples, side="right") - 1
        slots = samples + files
        offsets = np.asarray(self.starts[slots])
        sizes = self.starts[slots + 1] - offsets - self.gap
        return RecordSpans(files, samples - self.first[files], offsets, np.asarray(sizes))


def _open_all(paths: Sequence[Path], kind: RecordKind, verify: bool, cache: Path | None) -> list[RecordIndex]:
    """The indices of files, in their order.

    Workers that start at the same time begin with different files, so that each finds what others have built.
    """
    keep = sum(map(_size, paths)) >= KEPT_FROM_BYTES
    begin = os.getpid() % len(paths)
    order = [*range(begin, len(paths)), *range(begin)]
    with ThreadPoolExecutor(min(PARALLEL_INDICES, len(paths))) as pool:
        try:
            opened = {
                place: pool.submit(open_index, paths[place], kind, verify=verify, keep=keep, cache=cache)
                for place in order
            }
            return [opened[place].result() for place in range(len(paths))]
        finally:
            pool.shutdown(cancel_futures=True)


def _size(path: Path) -> int:
    """The size of a file in bytes; 0 where it cannot be read, which opening its index reports."""
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _judge(indices: Sequence[RecordIndex], on_corrupt: OnCorrupt) -> None:
    """Raises for a corrupt record, or logs how many are left out."""
    corrupt = sum(len(index.corrupt) for index in indices)
    if not corrupt:
        return
    problem = next(problem for index in indices for problem in index.problems())
    if on_corrupt == "stop":
        raise DataError(f"{problem} Write the file again, or leave corrupt records out with on_corrupt: skip.")
    _log.warning("%d corrupt record(s) are left out, the same on every worker. The first: %s", corrupt, problem)


def _joined(starts: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    """The starts of all files, one after another."""
    if len(starts) == 1:
        return starts[0]
    count = sum(len(part) for part in starts)
    if 8 * count <= IN_MEMORY_BYTES:
        return np.concatenate(starts)
    try:
        with tempfile.TemporaryFile(suffix=".tfindex") as file:
            for part in starts:
                file.write(part.tobytes())
            file.flush()
            return np.memmap(file, np.int64, "r", 0, (count,))
    except OSError:  # no room for it
        return np.concatenate(starts)


def sizes_of_records(
    form: str,
    records: Records,
    sample_bytes: int | None,
    *,
    estimated: bool = False,
    random_calls: tuple[str, ...] = (),
) -> SourceSizes:
    """Returns the sizes of records that are samples.

    Args:
        form: The name of the format.
        records: Where they lie.
        sample_bytes: Of one sample in a batch; None for the mean size of a record.
        estimated: Whether `sample_bytes` is an estimate, because a function makes the samples.
        random_calls: See `SourceSizes`.
    """
    sizes = [stamp_of(str(path)).size for path in records.paths]
    counts = records.counts.tolist()
    mapped = isinstance(records.starts, np.memmap)
    return SourceSizes(
        form,
        tuple(FileSizes(str(path), *pair) for path, *pair in zip(records.paths, counts, sizes, strict=True)),
        max(0, round(sum(sizes) / len(records)) - records.gap) if sample_bytes is None else sample_bytes,
        estimated,
        held_bytes=0 if mapped else records.starts.nbytes,
        random_calls=random_calls,
        local_disk=local_file_system(records.paths[0]),
    )
