"""Results of scanning a file for its records, chunk by chunk."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

import numpy as np
from numpy.typing import NDArray


class CorruptReason(IntEnum):
    """The reason why a record is corrupt. Index files hold the numbers."""

    LENGTH = 1
    DATA = 2
    TRUNCATED = 3

    def message(self, path: Path, record: int, offset: int) -> str:
        """Says in one sentence what is wrong with a record that begins at `offset`."""
        if self is CorruptReason.TRUNCATED:
            return f"{path} is truncated: it ends inside record {record}, which begins at byte {offset}."
        what = "length" if self is CorruptReason.LENGTH else "data"
        return f"{path}, record {record}, at byte {offset}: the {what}'s checksum is wrong, the file is damaged."


@dataclass(frozen=True)
class ScannedRecords:
    """The records of one chunk of a file.

    Attributes:
        starts: int64 [k], bytes from the start of the file to each record.
        end: Where the next record starts, or would.
        corrupt: The corrupt ones among them: place in `starts` and reason.
    """

    starts: NDArray[np.int64]
    end: int
    corrupt: Sequence[tuple[int, CorruptReason]] = ()
