"""How many batches a pipeline reads ahead."""

from __future__ import annotations

PREFETCHED_STEPS = 2
"""Batches of each replica that wait for their step."""

PARALLEL_READS = 1
"""Batches that are read at the same time. Two readers hand Python's lock to and fro at every system call, which on busy
cores takes longer than the reads; a slow disk is kept busy by `RecordReader` in another way."""
