"""Stores of a run's checkpoints: a folder of this machine, or one that is reached by a URL."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any, Protocol

from tfdist.checkpoint import checkpoint_files
from tfdist.checkpoint.pending_checkpoint import PendingCheckpoint
from tfdist.checkpoint.remote_store import RemoteCheckpointStore
from tfdist.url_schemes import is_url


class CheckpointStore(Protocol):
    """The checkpoints in one folder; see the functions of `checkpoint_files` for what each method does."""

    folder: Any

    def stored(self) -> list[checkpoint_files.StoredCheckpoint]:
        """The checkpoints, the latest first."""

    def writing(
        self, step: int, generation: int = 0, begun: Path | None = None
    ) -> contextlib.AbstractContextManager[PendingCheckpoint]:
        """Yields an empty checkpoint, which becomes the latest of `step`."""

    def remove(self, checkpoint: checkpoint_files.StoredCheckpoint) -> None:
        """Removes a checkpoint."""

    def remove_unfinished(self) -> None:
        """Removes what a writer that was killed left."""


class LocalCheckpointStore:
    """The checkpoints in a folder of this machine. One process writes into it.

    Attributes:
        folder: The folder.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def stored(self) -> list[checkpoint_files.StoredCheckpoint]:
        """The checkpoints, the latest first."""
        return checkpoint_files.stored(self.folder)

    def writing(
        self, step: int, generation: int = 0, begun: Path | None = None
    ) -> contextlib.AbstractContextManager[PendingCheckpoint]:
        """Yields an empty checkpoint, which becomes the latest of `step`."""
        return checkpoint_files.writing(self.folder, step, generation, begun)

    def remove(self, checkpoint: checkpoint_files.StoredCheckpoint) -> None:
        """Removes a checkpoint."""
        checkpoint_files.remove(checkpoint)

    def remove_unfinished(self) -> None:
        """Removes what a writer that was killed left."""
        checkpoint_files.remove_unfinished(self.folder)


def is_remote(folder: str | Path) -> bool:
    """Returns whether a folder is given by a URL."""
    return is_url(folder)


def open_store(folder: str | Path) -> CheckpointStore:
    """The store in a folder, given by a path, or by a URL such as `s3://bucket/run`.

    Raises:
        UsageError: Nothing here reaches such URLs.
    """
    if is_remote(folder):
        return RemoteCheckpointStore(str(folder))
    return LocalCheckpointStore(Path(folder))
