"""How much a pipeline reads ahead."""

from __future__ import annotations

from typing import NamedTuple

PREFETCHED_STEPS = 2
"""Batches of each replica that wait for their step."""

GROUP_RECORDS = 1 << 12
"""So many records are read in one call of Python, or a batch where that is more."""

GROUP_BYTES = 4 << 20
"""Fewer of them where they are larger than so many bytes together."""

PARALLEL_GROUPS = 2
"""Calls at the same time: the system reads for one without Python's lock, which the other has meanwhile."""


class ReadLimits(NamedTuple):
    """How a function that reads records is called.

    Attributes:
        records: So many in a call at the most, or a batch where that is more.
        calls: At the same time.
    """

    records: int
    calls: int


BATCH_BY_BATCH = ReadLimits(records=1, calls=1)
"""Of what must be read in order."""
