"""How many batches a pipeline reads ahead."""

from __future__ import annotations

PREFETCHED_STEPS = 2
"""Batches of each replica that wait for their step."""

PARALLEL_READS = 2
"""Batches that are read at the same time: reading holds Python's lock most of the time, waiting for a disk does not."""
