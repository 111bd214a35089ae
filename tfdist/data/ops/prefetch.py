"""Limits of what a pipeline reads ahead."""

from __future__ import annotations

from typing import NamedTuple

PREFETCHED_STEPS = 2
"""Batches of each replica that wait for their step."""

GROUP_RECORDS = 1 << 12
"""Records that are read in one call of Python; a batch where that is more."""

GROUP_BYTES = 4 << 20
"""Bytes of records in one call, which makes it fewer records where they are large."""

PARALLEL_GROUPS = 2
"""Calls at the same time: while the system reads for one, the other has Python's lock."""


class ReadLimits(NamedTuple):
    """The limits for calls of a function that reads records.

    Attributes:
        records: Records in a call at most; a batch where that is more.
        calls: Calls at the same time.
    """

    records: int
    calls: int


BATCH_BY_BATCH = ReadLimits(records=1, calls=1)
"""The limits of what must be read in order."""
