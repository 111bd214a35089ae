"""Text files as records, one a line."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tfdist.data.files import RecordReader, Records, Spans

_CHUNK = 16 << 20
_NEWLINE, _RETURN = 10, 13
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def index_lines(path: Path, header: bool = False) -> Spans:
    """Returns where the lines of a file lie, without their line ends. Empty lines are left out.

    Args:
        path: The file; lines end with LF or CR LF, the last one may do without.
        header: Whether the first line is no record.

    Raises:
        OSError: The file cannot be read.
    """
    ends: list[NDArray[np.int64]] = []
    returns: list[NDArray[np.bool_]] = []
    position, last = 0, b"\n"
    with open(path, "rb") as file:
        start = len(_BYTE_ORDER_MARK) if file.read(3) == _BYTE_ORDER_MARK else 0
        file.seek(0)
        while chunk := file.read(_CHUNK):
            data = np.frombuffer(last + chunk, np.uint8)
            found = np.flatnonzero(data[1:] == _NEWLINE)
            ends.append(found + position)
            returns.append(data[found] == _RETURN)
            position, last = position + len(chunk), chunk[-1:]
    if last != b"\n":
        ends.append(np.array([position]))
        returns.append(np.array([last == b"\r"]))
    if not ends:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    stops = np.concatenate(ends)
    starts = np.concatenate([[start], stops[:-1] + 1])
    lengths = stops - np.concatenate(returns) - starts
    kept = lengths > 0
    kept[0] &= not header
    return starts[kept], lengths[kept]


class LineReader:
    """Random access to the lines of text files that are not empty."""

    def __init__(self, paths: tuple[Path, ...], header: bool = False) -> None:
        spans_of: Callable[[Path], Spans] = partial(index_lines, header=header)
        self.records = Records.index(paths, spans_of)
        self._reader = RecordReader(self.records)

    def __len__(self) -> int:
        return len(self.records)

    def read(self, indices: NDArray[np.int64]) -> list[bytes]:
        """Returns the lines `indices` [k], without their line ends.

        Raises:
            DataError: A file can no longer be read.
        """
        return self._reader.read(indices)

    def name(self, index: int) -> str:
        """Names a line for an error: its file and its number in it, counted from 1 as editors do."""
        path = self.records.paths[self.records.file_of(index)]
        left = int(self.records.offsets[index])
        number = 1
        with open(path, "rb") as file:
            while left > 0 and (chunk := file.read(min(_CHUNK, left))):
                number += chunk.count(b"\n")
                left -= len(chunk)
        return f"{path}, line {number}"
