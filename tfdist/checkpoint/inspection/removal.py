"""Removal of checkpoints by hand: which may go so that a number of whole ones stays, and the run's lock meanwhile."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from tfdist.checkpoint.checkpoint_store import open_store
from tfdist.checkpoint.inspection.checkpoint_entries import CheckpointEntry
from tfdist.errors import RunDirError
from tfdist.launch.run_dir.run_lock import RunLock
from tfdist.rundir.layout import RunDir


def obsolete(
    held: Sequence[CheckpointEntry], keep: int, is_whole: Callable[[CheckpointEntry], bool]
) -> list[CheckpointEntry]:
    """The checkpoints that may be removed: all that are older than the latest `keep` whole ones.

    Damaged ones that are newer than the oldest of these stay. With fewer than `keep` whole ones all stay.

    Args:
        held: The checkpoints, the latest first.
        keep: How many whole ones stay, at least 1.
        is_whole: Whether every byte of one is as it was written; called only for those that stay.
    """
    whole = 0
    for place, entry in enumerate(held):
        whole += is_whole(entry)
        if whole == keep:
            return list(held[place + 1 :])
    return []


def remove(entry: CheckpointEntry) -> bool:
    """Removes a checkpoint; returns whether nothing of it is left."""
    path = entry.stored.path
    open_store(path.parent if isinstance(path, Path) else str(path.parent)).remove(entry.stored)
    if isinstance(path, Path):
        return not os.path.lexists(path)
    try:
        return not any(path.iterdir())
    except FileNotFoundError:
        return True


@contextlib.contextmanager
def locked(run: RunDir, *, live: bool) -> Iterator[bool]:
    """Keeps jobs out of a run while its checkpoints are removed; yields whether a job is running.

    Args:
        run: The run.
        live: Whether to continue when a job is running.

    Raises:
        RunDirError: A job is running, and `live` is False.
    """
    with RunLock() as lock:
        try:
            lock.take(run)
        except RunDirError:
            if not live:
                raise RunDirError(
                    f"The run in {run} is still running, and its job saves and removes checkpoints. Expected a run "
                    "that has ended. Received: one that a job holds. End that job first, or give --live to remove "
                    "old checkpoints meanwhile."
                ) from None
            yield True
            return
        yield False
