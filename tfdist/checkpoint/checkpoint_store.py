"""Stores of a run's checkpoints: a folder of this machine, or one that is reached by a URL.

Checkpoints in a store that is reached by a URL, such as `gs://bucket/run` or `s3://bucket/run`.

An object store has no rename and no flush: a file is whole once it is closed, and a directory is only a part of names.
So files are written where they stay, and the marker, which is written last, makes the checkpoint whole.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

from tfdist.checkpoint import checkpoint_files
from tfdist.checkpoint.pending_checkpoint import PendingCheckpoint
from tfdist.rundir import atomic_files
from tfdist.runtime.object_stores import path_of
from tfdist.storage.object_path import ObjectPath
from tfdist.url_schemes import is_url


class RemoteCheckpointStore:
    """The checkpoints in a folder that has a URL. One process writes into it.

    Attributes:
        folder: The folder.
    """

    def __init__(self, url: str) -> None:
        self.folder = path_of(url)

    def stored(self) -> list[checkpoint_files.StoredCheckpoint]:
        """The checkpoints, the latest first; whether they are whole is not checked."""
        return checkpoint_files.stored(self.folder)

    @contextlib.contextmanager
    def writing(self, step: int, generation: int = 0, begun: Path | None = None) -> Iterator[PendingCheckpoint]:
        """Yields an empty checkpoint; at a clean exit it is the latest of `step`.

        An earlier start of an elastic job may be writing one of the same step, so each generation has names of its own.
        Nothing is begun on this machine.

        Raises:
            RunDirError: It cannot be written.
        """
        least = generation if generation > 1 else 0
        target = self.folder / checkpoint_files.free_name(self.stored(), step, least)
        draft = PendingCheckpoint(lambda name, content: (target / name).write_bytes(content), generation)
        try:
            target.mkdir()
            yield draft
            (target / checkpoint_files.MARKER).write_bytes((json.dumps(draft.marker(), indent=2) + "\n").encode())
        except BaseException as error:
            with contextlib.suppress(OSError):  # the next start removes it
                target.rmtree()
            if isinstance(error, OSError):
                raise atomic_files.write_error(str(self.folder), error) from error
            raise

    def remove(self, checkpoint: checkpoint_files.StoredCheckpoint) -> None:
        """Removes a checkpoint, its marker first."""
        with contextlib.suppress(OSError):  # what cannot be removed now is tried again with the next one
            if checkpoint.is_marked:
                (checkpoint.path / checkpoint_files.MARKER).unlink()
            assert isinstance(checkpoint.path, ObjectPath)
            checkpoint.path.rmtree()

    def remove_unfinished(self) -> None:
        """Removes what a writer that was killed left."""
        for checkpoint in self.stored():
            if not checkpoint.is_marked:
                self.remove(checkpoint)


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
