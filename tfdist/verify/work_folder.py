"""Work folder of a verification: its run directories, removed at the end unless they are needed."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tfdist.errors import UsageError


@dataclass
class WorkFolder:
    """The folder of the run directories, and whether it stays."""

    path: Path
    kept: bool

    def keep(self) -> None:
        """Keeps the run directories, for their logs."""
        self.kept = True


@contextlib.contextmanager
def open_folder(keep: str | None, prefix: str = "tfdist-verify-") -> Iterator[WorkFolder]:
    """A temporary folder, removed at the end, or `keep`, which stays. Raises `UsageError` if that cannot be used."""
    if keep is None:
        folder = WorkFolder(Path(tempfile.mkdtemp(prefix=prefix)), kept=False)
    else:
        folder = WorkFolder(Path(keep), kept=True)
        try:
            folder.path.mkdir(parents=True, exist_ok=True)
            entries = os.listdir(folder.path)
        except OSError as error:
            raise UsageError(f"--keep {keep} cannot be used: {error}. Expected a new or an empty directory.") from error
        if entries:
            raise UsageError(
                f"--keep expects a new or an empty directory for the run directories. Received: --keep {keep} with "
                f"{', '.join(sorted(entries)[:3])}."
            )
    try:
        yield folder
    finally:
        if not folder.kept:
            shutil.rmtree(folder.path, ignore_errors=True)
