"""The folder in which a checkpoint is made that all workers write."""

from __future__ import annotations

import contextlib
import secrets
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tfdist.checkpoint import checkpoint_files
from tfdist.errors import RunDirError
from tfdist.rundir import atomic_files

_TOKEN = ".token"
"""A file with a random text: a worker that reads the chief's there has the chief's folder, and no other of its name."""


@dataclass(frozen=True)
class Staging:
    """The place where the checkpoint is made, as all workers know it.

    Attributes:
        folder: On the chief's machine; None where the checkpoints have a URL.
        is_common: Whether all workers reach it.
        busy: The workers that are still writing their shard of the one before.
    """

    folder: Path | None
    is_common: bool
    busy: Sequence[int] = ()

    def discard(self) -> None:
        """Removes what was made; on the chief."""
        if self.folder is not None:
            shutil.rmtree(self.folder, ignore_errors=True)

    def clean(self) -> None:
        """Removes what is no part of the checkpoint; on the chief."""
        if self.folder is not None:
            for path in self.folder.glob(".*"):
                path.unlink()


def make_folder(checkpoints: Path, step: int) -> Path:
    """The folder of a new checkpoint, with a token; on the chief.

    Raises:
        RunDirError: The disk is full, or cannot be written.
    """
    folder = checkpoint_files.temporary_folder_of(checkpoints, step)
    try:
        folder.mkdir(parents=True)
        (folder / _TOKEN).write_text(secrets.token_hex(16))
    except OSError as error:
        shutil.rmtree(folder, ignore_errors=True)
        raise atomic_files.write_error(checkpoints, error) from error
    return folder


def token_in(folder: Path) -> str:
    """The token of a folder; nothing where it cannot be read, as by a worker of another host."""
    return small_text(folder / _TOKEN)


def small_text(file: Path) -> str:
    """Returns what is in a small file; nothing where it cannot be read."""
    with contextlib.suppress(OSError, ValueError, RunDirError), checkpoint_files.opened(file) as content:
        return content.read(checkpoint_files.MOST_MARKER_BYTES).decode()
    return ""
