"""Scan of a text file: where its lines lie."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import IO

import numpy as np

from tfdist.data.random_access.scan_results import ScannedRecords

CHUNK = 16 << 20
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_NEWLINE, _RETURN = 10, 13


def scan_lines(file: IO[bytes], path: Path, size: int, verify: bool) -> Iterator[ScannedRecords]:
    """Finds the lines that are not empty. They end with LF or CR LF, the last one may do without.

    Args:
        file: Open for reading bytes, at its start.
        path: Not used, as a line has no checksum that could be wrong.
        size: The size of the file in bytes.
        verify: Not used.

    Yields:
        The lines that end in each chunk. The first line is without the byte order mark.
    """
    start = len(BYTE_ORDER_MARK) if file.read(3) == BYTE_ORDER_MARK else 0
    file.seek(0)
    position, last = 0, b""
    while chunk := file.read(CHUNK):
        data = np.frombuffer(last + chunk, np.uint8)
        places = np.flatnonzero(data[len(last) :] == _NEWLINE)
        stops = places + position
        if len(places):
            starts = np.concatenate([[start], stops[:-1] + 1])
            before = places + len(last) - 1
            returns = (before >= 0) & (data[before] == _RETURN)
            start = int(stops[-1]) + 1
            yield ScannedRecords(starts[stops - returns > starts], start)
        position, last = position + len(chunk), chunk[-1:]
    if position - (last == b"\r") > start:
        yield ScannedRecords(np.array([start]), position)
    elif position > start:
        yield ScannedRecords(np.empty(0, np.int64), position)
