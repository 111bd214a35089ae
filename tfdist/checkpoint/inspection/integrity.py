"""Whether every byte of a checkpoint is as it was written."""

from __future__ import annotations

from tfdist.checkpoint import checkpoint_files
from tfdist.checkpoint.inspection.checkpoint_entries import CheckpointEntry


def damages(entry: CheckpointEntry) -> list[str]:
    """Every file that is not as it was written, and how, for people. Reads all of them."""
    if not entry.stored.is_marked:
        return [entry.fault or "it was never finished"]
    return list(entry.stored.faults(checkpoint_files.other_bytes))
