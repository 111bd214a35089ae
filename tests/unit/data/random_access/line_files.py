"""Files of lines, and their lines as the reader of records returns them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np

from tfdist.data.random_access.numbered_records import Records
from tfdist.data.random_access.record_reader import RecordReader


def write(folder: Path, **lines: str) -> tuple[Path, ...]:
    """Writes a file of each name with its text."""
    for name, content in lines.items():
        (folder / name).write_text(content)
    return tuple(folder / name for name in lines)


def lines_of(found: Records, samples: Iterable[int]) -> list[bytes]:
    return [line.strip() for line in RecordReader(found).read(np.array(list(samples), np.int64)).cut()]
